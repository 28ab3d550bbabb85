"""Twenty steps under precision fp16 against an emulation of the model, the optimizer and the loss scale in NumPy.

The emulation rounds to halves where engine/numbers.md says that the engine stores or multiplies them, and sums in
float64. The engine sums in float32, so a value next to a midpoint may round to the other half; the bounds allow for
that, and are far below the effect of a rounding that is left out. Outcomes and scales must be equal.
"""

import numpy
from emulated_gpt import CONTEXT, MODEL, VOCAB, draw_weights, loss_and_gradients

import hawser

ROWS = 4
RATE, BETA1, BETA2, EPS, DECAY, CLIP = 2e-3, 0.9, 0.95, 1e-6, 0.1, 0.5
STEPS, INITIAL, GROWTH, BACKOFF, PATIENCE, MINIMUM = 20, 2.0**17, 3, 4.0, 2, 2.0


class Halves:
    """Rounds what is stored to halves, which products read."""

    @staticmethod
    def narrow(x):
        with numpy.errstate(over="ignore"):
            return numpy.asarray(x).astype(numpy.float32).astype(numpy.float16).astype(numpy.float64)

    @staticmethod
    def operand(key, x, over_tokens=False):
        return x


class Scale:
    """The loss scale, as the schema describes it."""

    def __init__(self):
        self.now, self.good, self.bad = INITIAL, 0, 0

    def step(self, finite):
        self.good, self.bad = (self.good + 1, 0) if finite else (0, self.bad + 1)
        if self.bad == PATIENCE:
            self.now, self.bad = max(MINIMUM, self.now / BACKOFF), 0
        if self.good == GROWTH:
            self.now, self.good = 2 * self.now, 0


def emulate(p, batches):
    scale, accepted = Scale(), 0
    m, v = ({name: numpy.zeros_like(value) for name, value in p.items()} for _ in range(2))
    for tokens, targets in batches:
        now = scale.now
        with numpy.errstate(all="ignore"):
            loss, grads = loss_and_gradients(Halves, p, tokens, targets, (targets >= 0).sum(), now)
            size = numpy.sqrt(sum((g * g).sum() for g in grads.values())) / now
        finite = bool(numpy.isfinite(loss) and numpy.isfinite(size))
        scale.step(finite)
        if finite:
            accepted += 1
            for name, g in grads.items():
                g = g / now * min(1.0, CLIP / (size + 1e-6))
                m[name] = BETA1 * m[name] + (1 - BETA1) * g
                v[name] = BETA2 * v[name] + (1 - BETA2) * g * g
                update = m[name] / (1 - BETA1**accepted) / (numpy.sqrt(v[name] / (1 - BETA2**accepted)) + EPS)
                decay = DECAY if p[name].ndim > 1 else 0.0
                p[name] = p[name] - RATE * decay * p[name] - RATE * update
        yield finite, now, loss, size


def config():
    return {
        "precision": "fp16",
        "loss_scale": {"initial": INITIAL, "growth_every": GROWTH, "backoff": BACKOFF, "patience": PATIENCE,
                       "minimum": MINIMUM},
        "model": MODEL,
        "batch": {"micro_batch": ROWS, "sequence": CONTEXT},
        "optimizer": {"learning_rate": RATE, "beta1": BETA1, "beta2": BETA2, "eps": EPS, "weight_decay": DECAY,
                      "clip_norm": CLIP},
        "schedule": {"kind": "constant", "warmup_steps": 0},
        "guard": {"max_consecutive_skips": 3},
        "cpu": {"threads": 1},
    }  # fmt: skip


def distance(a, b):
    return numpy.linalg.norm(a - b) / numpy.linalg.norm(b)


def test_twenty_steps_are_those_of_the_emulation():
    random = numpy.random.default_rng(11)
    engine = hawser.Engine(config())
    p = draw_weights(engine, random)
    batches = []
    for _ in range(STEPS):
        targets = random.integers(0, VOCAB, (ROWS, CONTEXT))
        targets[random.random(targets.shape) < 0.2] = -100
        batches.append((random.integers(0, VOCAB, (ROWS, CONTEXT)), targets))
    start = {name: value.copy() for name, value in p.items()}
    outcomes, scales = [], []
    for step, (finite, scale, loss, size) in enumerate(emulate(p, batches)):
        tokens, targets = batches[step]
        engine.push(tokens.astype(numpy.int32), targets.astype(numpy.int32))
        result = engine.train_step()
        assert result.outcome == (hawser.ACCEPTED if finite else hawser.SKIPPED_OVERFLOW), step
        assert engine.metrics()["loss_scale"] == scale, step
        assert abs(result.loss - loss) < 2e-4 * abs(loss), step
        if finite:
            assert abs(result.grad_norm - size) < 1e-3 * size, step
        outcomes.append(finite)
        scales.append(scale)
    assert not all(outcomes) and sum(outcomes) >= 8 and len(set(scales)) >= 4  # the scale fell and rose
    for name, value in p.items():
        if name.endswith("attention.k.bias"):  # softmax ignores it, so its gradient is rounding noise
            continue
        moved = numpy.linalg.norm(value - start[name])
        assert numpy.linalg.norm(engine.tensor(name) - value) < 0.02 * moved, name
