"""Answers to the task `scaler`: ``# %% right: title``, or ``# %% wrong: title | what the feedback must match``."""
# Each section replaces one notebook cell, written as a learner would: names come from the cells before it, are bound
# again in the next section, and imports stand where they are used.
# ruff: noqa: F811, F821

# %% right: counts down


class LossScaler:
    def __init__(self, scale=2.0**16, interval=2000):
        self.scale = scale
        self.interval = self.left = interval

    def unscale(self, gradients):
        present = [g for g in gradients if g is not None]
        for g in present:
            g /= self.scale
        return not any((g - g != 0).any() for g in present)

    def update(self, finite):
        self.left = self.left - 1 if finite else self.interval
        if not finite:
            self.scale *= 0.5
        elif self.left == 0:
            self.scale, self.left = 2 * self.scale, self.interval


# %% right: a history


class LossScaler:
    def __init__(self, scale=2.0**16, interval=2000):
        self.scale, self.interval, self.history = scale, interval, []

    def unscale(self, gradients):
        checks = []
        for g in gradients:
            if g is not None:
                g[...] = g / self.scale
                checks.append(np.all(np.abs(g) < np.inf))
        return np.all(checks)

    def update(self, finite):
        self.history.append(finite)
        if not finite:
            self.scale, self.history = self.scale / 2, []
        elif len(self.history) % self.interval == 0:
            self.scale *= 2


# %% wrong: multiplies | multiplied by the scale once more


class LossScaler(LossScaler):
    def unscale(self, gradients):
        finite = True
        for g in gradients:
            if g is not None:
                g *= self.scale
                finite = finite and bool(np.isfinite(g).all())
        return finite


# %% wrong: new arrays | gradients are as they were


class LossScaler(LossScaler):
    def unscale(self, gradients):
        finite = True
        for g in gradients:
            if g is not None:
                g = g / self.scale
                finite = finite and bool(np.isfinite(g).all())
        return finite


# %% wrong: looks for NaN only | Infinity is let through


class LossScaler(LossScaler):
    def unscale(self, gradients):
        finite = True
        for g in gradients:
            if g is not None:
                g *= 1 / self.scale
                finite = finite and not np.isnan(g).any()
        return finite


# %% wrong: looks for infinity only | NaN is let through


class LossScaler(LossScaler):
    def unscale(self, gradients):
        finite = True
        for g in gradients:
            if g is not None:
                g *= 1 / self.scale
                finite = finite and not np.isinf(g).any()
        return finite


# %% wrong: only the last gradient counts | Only the last|let through


class LossScaler(LossScaler):
    def unscale(self, gradients):
        finite = True
        for g in gradients:
            if g is not None:
                g *= 1 / self.scale
                finite = bool(np.isfinite(g).all())
        return finite


# %% wrong: returns at the first that is not finite | In step \d+ gradients\[


class LossScaler(LossScaler):
    def unscale(self, gradients):
        finite = True
        for g in gradients:
            if g is not None:
                g *= 1 / self.scale
                if not np.isfinite(g).all():
                    return False
        return finite


# %% wrong: looks at the sum | their sum is infinite


class LossScaler(LossScaler):
    def unscale(self, gradients):
        finite = True
        for g in gradients:
            if g is not None:
                finite = finite and bool(np.isfinite(g.sum()))
                g *= 1 / self.scale
        return finite


# %% wrong: good steps are counted across bad ones | in a row


class LossScaler(LossScaler):
    def update(self, finite):
        if not finite:
            self.scale = self.scale / 2
            return
        self.good += 1
        if self.good == self.interval:
            self.scale, self.good = self.scale * 2, 0


# %% wrong: one step late | one step too late


class LossScaler(LossScaler):
    def update(self, finite):
        if not finite:
            self.scale, self.good = self.scale / 2, 0
            return
        self.good += 1
        if self.good > self.interval:
            self.scale, self.good = self.scale * 2, 0


# %% wrong: grows on and on | count starts anew


class LossScaler(LossScaler):
    def update(self, finite):
        if not finite:
            self.scale, self.good = self.scale / 2, 0
            return
        self.good += 1
        if self.good >= self.interval:
            self.scale = self.scale * 2


# %% wrong: never shrinks | does not shrink


class LossScaler(LossScaler):
    def update(self, finite):
        if not finite:
            self.good = 0
            return
        self.good += 1
        if self.good == self.interval:
            self.scale, self.good = self.scale * 2, 0


# %% wrong: never grows | never grows


class LossScaler(LossScaler):
    def update(self, finite):
        if not finite:
            self.scale, self.good = self.scale / 2, 0
            return
        self.good += 1
        if self.good == self.interval:
            self.good = 0


# %% wrong: divides good gradients only | divided in any case


class LossScaler(LossScaler):
    def unscale(self, gradients):
        finite = True
        for g in gradients:
            if g is not None:
                finite = finite and bool(np.isfinite(g).all())
        if finite:
            for g in gradients:
                if g is not None:
                    g *= 1 / self.scale
        return finite


# %% wrong: None not thought of | None


class LossScaler(LossScaler):
    def unscale(self, gradients):
        finite = True
        for g in gradients:
            g *= 1 / self.scale
            finite = finite and bool(np.isfinite(g).all())
        return finite


# %% wrong: halves to a whole number | After step \d+ the scale|divided by zero


class LossScaler(LossScaler):
    def update(self, finite):
        if not finite:
            self.scale, self.good = self.scale // 2, 0
            return
        self.good += 1
        if self.good == self.interval:
            self.scale, self.good = self.scale * 2, 0


# %% wrong: not filled in | Not written yet


class LossScaler:
    def __init__(self, scale=2.0**16, interval=2000):
        raise NotImplementedError("your code here")

    def unscale(self, gradients):
        finite = True
        for g in gradients:
            if g is not None:
                g *= 1 / self.scale
                finite = finite and bool(np.isfinite(g).all())
        return finite

    def update(self, finite):
        if not finite:
            self.scale, self.good = self.scale / 2, 0
            return
        self.good += 1
        if self.good == self.interval:
            self.scale, self.good = self.scale * 2, 0
