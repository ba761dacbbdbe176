"""Drivers of the lab for tests: what would be in ``autograder.drivers``."""


def double(names, x):
    return names["double"](x)


def parts(names, x):
    return names["parts"](x)


def metered(names, x):
    from counting import Meter, bare  # beside the worker, in a sandbox

    with Meter() as meter:
        answer = names["double"](meter.array(x.copy()))
    return {"answer": bare(answer), "counted": meter.counted}


def tampered(names, x):
    return names["double"](x)
