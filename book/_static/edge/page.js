// Chapter 22: models of the page, run by the reader's own browser. A box of the class "edge-demo" holds JSON: models
// with their files, digits, and what CPython computed for them when the page was built. Nothing is fetched before a
// button is pressed.
(() => {
  const HERE = new URL(".", document.currentScript.src);
  const TOLERANCE = 1e-5; // of a score in float32, or of 1 where that is more: products are added up in another order
  const GRID = 32; // the data set's digits were bitmaps of 32 by 32; each pixel is a count over 4 by 4 of them
  const PEN = 1.9;

  /** An element with attributes and children. */
  function made(tag, attributes = {}, ...children) {
    const svg = ["svg", "polyline", "rect", "path"].includes(tag);
    const one = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
    one.append(...children);
    return one;
  }

  const TYPES = { float32: Float32Array, int8: Int8Array, uint8: Uint8Array };

  function unpacked({ dtype, data }) {
    return new TYPES[dtype](Uint8Array.from(atob(data), (c) => c.charCodeAt(0)).buffer);
  }

  function packed(array, shape) {
    const data = btoa(String.fromCharCode(...new Uint8Array(array.buffer)));
    return { dtype: "float32", shape, data };
  }

  /** Python in a worker. */
  class Python {
    constructor() {
      this.worker = new Worker(new URL("worker.js", HERE));
      this.waiting = new Map();
      this.number = 0;
    }

    started(tell) {
      return new Promise((done, fail) => {
        this.worker.onerror = (event) => fail(new Error(event.message || "the worker's script could not be loaded"));
        this.worker.onmessage = ({ data }) => {
          if (data.step) tell(data.step);
          else if (data.ready) done();
          else if (data.failed) fail(new Error(data.failed));
          else this.settle(data);
        };
      });
    }

    settle({ id, answer, error }) {
      const { done, fail } = this.waiting.get(id);
      this.waiting.delete(id);
      if (error) fail(new Error(error.replace(/^[\w.]+: (?=lite: )/, "")));
      else done(answer);
    }

    ask(question) {
      const id = (this.number += 1);
      return new Promise((done, fail) => {
        this.waiting.set(id, { done, fail });
        this.worker.postMessage({ id, question });
      });
    }
  }

  /** Why nothing can be run here, or "". */
  function missing() {
    if (typeof WebAssembly === "undefined" || typeof Worker === "undefined") {
      return "This browser has no WebAssembly, or it is switched off, and Python runs in it.";
    }
    if (!/^https?:$/.test(window.location.protocol)) {
      return "A page that was opened as a file may start no Python. Open it from a server: make serve starts one.";
    }
    return "";
  }

  /** The pad: lines drawn with a mouse, a finger, or the arrow keys; as vectors between 0 and 1. */
  function pad(changed) {
    const surface = made("svg", {
      viewBox: `0 0 ${GRID} ${GRID}`, class: "edge-pad", tabindex: "0", role: "application",
      "aria-label": "Pad for a digit. Arrow keys move the pen, the space bar puts it down or lifts it, Delete clears.",
    });
    const cross = made("path", { class: "edge-cross" });
    surface.append(cross);
    let lines = [];
    let drawing = false; // by a pointer
    let down = false; // by the keyboard
    let at = [0.5, 0.2];

    const add = (point, begin) => {
      if (begin || !lines.length) {
        lines.push({ points: [], shape: made("polyline", { class: "edge-line", "stroke-width": 2 * PEN }) });
        surface.insertBefore(lines.at(-1).shape, cross);
      }
      const { points, shape } = lines.at(-1);
      points.push(point);
      // A line of one point would not be drawn.
      shape.setAttribute("points", [points[0], ...points].map(([x, y]) => `${x * GRID},${y * GRID}`).join(" "));
      changed();
    };
    const place = (event) => {
      const box = surface.getBoundingClientRect();
      return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    };
    const show = () => {
      const [x, y] = [at[0] * GRID, at[1] * GRID];
      cross.setAttribute("d", `M${x - 1.5},${y}h3M${x},${y - 1.5}v3`);
      surface.classList.toggle("edge-down", down);
    };
    const clear = () => {
      for (const { shape } of lines) shape.remove();
      [lines, down, drawing] = [[], false, false];
      show();
    };
    surface.addEventListener("pointerdown", (event) => {
      surface.setPointerCapture(event.pointerId);
      drawing = true;
      add(place(event), true);
    });
    surface.addEventListener("pointermove", (event) => drawing && add(place(event), false));
    for (const end of ["pointerup", "pointercancel"]) surface.addEventListener(end, () => (drawing = false));
    surface.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (step) {
        at = at.map((one, i) => Math.min(0.95, Math.max(0.05, one + step[i] / 16)));
        if (down) add(at, false);
      } else if (event.key === " ") {
        down = !down;
        if (down) add(at, true);
      } else if (["Delete", "Backspace"].includes(event.key)) {
        clear();
        changed();
      } else return;
      event.preventDefault();
      show();
    });
    show();
    return { surface, clear, lines: () => lines.map((line) => line.points) };
  }

  /** Lines as the data set has its digits: as large as fits, in the middle, 64 counts of 0 to 16 over 16. */
  function pixels(lines) {
    const all = lines.flat();
    const found = new Float32Array(64);
    if (!all.length) return found;
    const [low, high] = [Math.min, Math.max].map((pick) => [0, 1].map((i) => pick(...all.map((point) => point[i]))));
    const scale = (GRID - 2 * PEN) / Math.max(high[0] - low[0], high[1] - low[1], 0.15);
    const moved = lines.map((line) =>
      line.map((point) => point.map((one, i) => (one - (low[i] + high[i]) / 2) * scale + GRID / 2)));
    for (let y = 0; y < GRID; y += 1) {
      for (let x = 0; x < GRID; x += 1) {
        const touches = (line) => line.some((end, i) => distance(x + 0.5, y + 0.5, line[i && i - 1], end) < PEN);
        if (moved.some(touches)) found[8 * (y >> 2) + (x >> 2)] += 1 / 16;
      }
    }
    return found;
  }

  /** From a point to a piece of a line. */
  function distance(x, y, [ax, ay], [bx, by]) {
    const [dx, dy] = [bx - ax, by - ay];
    const along = Math.min(1, Math.max(0, ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy || 1)));
    return Math.hypot(x - ax - along * dx, y - ay - along * dy);
  }

  function shares(scores) {
    const most = Math.max(...scores);
    const powers = scores.map((one) => Math.exp(one - most));
    const whole = powers.reduce((a, b) => a + b);
    return powers.map((one) => one / whole);
  }

  /** What the numbers of this browser are beside those of CPython. */
  function compared(found, wanted) {
    const [a, b] = [unpacked(found), unpacked(wanted)];
    if (found.dtype !== wanted.dtype || a.length !== b.length) return { same: false, words: "not as many" };
    const count = a.length.toLocaleString("en");
    if (found.dtype === "int8") {
      const wrong = a.filter((one, i) => one !== b[i]).length;
      return { same: !wrong, words: wrong ? `${wrong} of ${count} differ` : `all ${count} equal` };
    }
    const apart = Math.max(...a.map((one, i) => Math.abs(one - b[i]) / Math.max(1, Math.abs(b[i]))));
    const words = `${count} numbers, at most ${apart.toExponential(1)} apart`;
    return { same: apart <= TOLERANCE, words: apart <= TOLERANCE ? words : `${words}: more than ${TOLERANCE}` };
  }

  function row(head, ...cells) {
    return made("tr", {}, made("th", { scope: "row" }, head), ...cells.map((cell) => made("td", {}, cell)));
  }

  function table(caption, heads, rows) {
    const head = made("tr", {}, ...heads.map((one) => (one ? made("th", { scope: "col" }, one) : made("td"))));
    const all = made("table", {}, made("caption", {}, caption), made("thead", {}, head), made("tbody", {}, ...rows));
    // A table that is wider than a phone scrolls by itself, with the keyboard too.
    return made("div", { class: "edge-table", tabindex: "0", role: "region", "aria-label": caption }, all);
  }

  /** Start Python, read the models, compare them with CPython, time them. */
  async function measured(told, python, tell) {
    const began = performance.now();
    await python.started(tell);
    const seconds = (performance.now() - began) / 1000;
    const versions = await python.ask({ do: "versions" });
    const models = {};
    for (const [name, { file, scores, milliseconds: built }] of Object.entries(told.models)) {
      tell(`Reading and comparing ${name}`);
      const sizes = await python.ask({ do: "load", name, file });
      const { y } = await python.ask({ do: "run", name, x: told.digits });
      const one = packed(unpacked(told.digits).slice(0, 64), [1, 1, 8, 8]);
      const { milliseconds } = await python.ask({ do: "run", name, x: one, milliseconds: 300 });
      models[name] = { ...sizes, milliseconds, built, ...compared(y, scores) };
    }
    return { seconds, versions, models };
  }

  function facts({ models }) {
    const names = Object.keys(models);
    const each = (tell) => names.map((name) => tell(models[name]));
    const bytes = (count) => `${count.toLocaleString("en")} bytes`;
    return table("The two files in this browser", ["", ...names], [
      row("file", ...each((one) => bytes(one.file))),
      row("arena", ...each((one) => bytes(one.arena))),
      row("room to work in", ...each((one) => bytes(one.room))),
      row("one digit, here", ...each((one) => `${one.milliseconds.toFixed(2)} ms`)),
      row("one digit, when built", ...each((one) => `${one.built.toFixed(2)} ms`)),
      row("scores beside CPython's", ...each((one) => one.words)),
    ]);
  }

  /** Where digits are drawn or chosen, and what the models make of them. */
  function playground(told, python, names, fail) {
    const digits = unpacked(told.digits);
    const sees = "What the models see";
    const preview = made("svg", { viewBox: "0 0 8 8", class: "edge-preview", role: "img", "aria-label": sees });
    for (let i = 0; i < 64; i += 1) preview.append(made("rect", { x: i % 8, y: i >> 3, width: 1.02, height: 1.02 }));
    const verdict = made("p", { role: "status", class: "edge-verdict" });
    const bars = new Map();
    const rows = [...Array(10).keys()].map((digit) => {
      const cells = names.map((name) => made("span", { class: "edge-bar" }));
      bars.set(digit, cells);
      return row(String(digit), ...cells);
    });
    let [asked, shown, number, source] = [0, 0, -1, ""];

    async function classify(x, from) {
      const mine = (asked += 1);
      source = from;
      [...preview.children].forEach((one, i) => (one.style.fillOpacity = x[i]));
      const found = [];
      for (const name of names) {
        found.push(shares((await python.ask({ do: "run", name, x: packed(x, [1, 1, 8, 8]) })).reals[0]));
      }
      if (mine < shown) return; // a later one was faster
      shown = mine;
      const said = found.map((scores, i) => {
        const best = scores.indexOf(Math.max(...scores));
        return `${names[i]} says ${best} (${(100 * scores[best]).toFixed(0)} %)`;
      });
      for (const [digit, cells] of bars) {
        cells.forEach((cell, i) => {
          cell.style.setProperty("--share", `${100 * found[i][digit]}%`);
          cell.textContent = `${(100 * found[i][digit]).toFixed(0)} %`;
        });
      }
      verdict.textContent = `${source}: ${said.join(", ")}.`;
    }

    /** Nothing is drawn, and so nothing is seen or said. */
    function blank() {
      shown = asked += 1; // what is under way comes too late
      for (const one of preview.children) one.style.fillOpacity = 0;
      for (const cell of [...bars.values()].flat()) {
        cell.style.setProperty("--share", "0%");
        cell.textContent = "";
      }
      verdict.textContent = "";
    }

    let pending = false;
    const board = pad(() => {
      // As often as the models can follow, and once more at the end.
      if (pending) return;
      pending = true;
      window.setTimeout(() => {
        pending = false;
        if (board.lines().length) classify(pixels(board.lines()), "Your digit").catch(fail);
        else if (source === "Your digit") blank();
      }, 120);
    });
    const next = made("button", { type: "button", class: "edge-next" }, "A held-out digit");
    const choose = () => {
      number = (number + 1) % told.labels.length;
      board.clear();
      const chosen = digits.slice(64 * number, 64 * number + 64);
      return classify(chosen, `Held-out digit ${number + 1}, labelled ${told.labels[number]}`);
    };
    next.addEventListener("click", () => choose().catch(fail));
    const clear = made("button", { type: "button" }, "Clear");
    clear.addEventListener("click", () => {
      board.clear();
      blank();
    });
    const buttons = made("p", {}, clear, " ", next);
    const left = made("div", {}, made("p", {}, "Draw a digit, or take one."), board.surface, buttons);
    const middle = made("div", {}, made("p", {}, sees), preview);
    const right = table("Scores, as shares of 1", ["digit", ...names], rows);
    return { box: made("div", {}, made("div", { class: "edge-play" }, left, middle, right), verdict), choose };
  }

  function set(box) {
    const told = JSON.parse(box.querySelector("script").textContent);
    const start = made("button", { type: "button", class: "edge-start" }, "Run both files in this browser");
    const size = "Fetches 27 MB from this site, once: Python, NumPy and the interpreter.";
    const status = made("p", { role: "status" }, size);
    const place = made("div", { class: "edge-result" });
    box.replaceChildren(start, status, place);
    const fail = (why) => {
      box.dataset.state = "failed";
      status.textContent = why;
      place.replaceChildren();
      start.hidden = false;
    };
    if (missing()) {
      fail(missing());
      start.hidden = true;
      return;
    }
    start.addEventListener("click", async () => {
      box.dataset.state = "loading";
      start.hidden = true;
      let python;
      const stop = (error) => {
        if (python) python.worker.terminate();
        fail(`It did not work: ${error.message}. The button tries again.`);
      };
      try {
        const there = await fetch(new URL("../pyodide/VERSION", HERE));
        if (!there.ok) {
          fail("This copy of the site has no Python for browsers. Where npm can fetch it, make book adds it.");
          return;
        }
        python = new Python();
        const result = await measured(told, python, (step) => (status.textContent = `${step} ...`));
        const { box: play, choose } = playground(told, python, Object.keys(told.models), stop);
        place.replaceChildren(play, facts(result));
        await choose();
        box.dataset.same = Object.values(result.models).every((one) => one.same);
        box.dataset.state = "ready";
        const { python: version, numpy } = result.versions;
        status.textContent =
          `Python ${version} and NumPy ${numpy} run here, started in ${result.seconds.toFixed(1)} s. ` +
          `${told.labels.length} held-out digits were compared with what CPython computed when this page was built.`;
      } catch (error) {
        stop(error);
      }
    });
    box.dataset.state = "idle";
  }

  for (const box of document.querySelectorAll(".edge-demo:not([data-state])")) set(box);
})();
