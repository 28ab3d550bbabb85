"""Twenty steps under precision fp8 against an emulation of the model and of the scales in NumPy.

The emulation rounds to bf16 and to fp8 where engine/numbers.md says that the engine stores or multiplies such
numbers, and sums in float64. The engine sums in float32, so a value next to a midpoint may round to the other
neighbour in some steps, which the largest differences allow for; the medians are far below the effect of a rounding
that is left out or of another scale. Each step begins with the engine's weights, because Adam would make full steps of
such differences. In two of the steps few targets have gradients, which are larger than those before, so that delayed
scales saturate. One step is discarded. With a margin of 11 most numbers are subnormal in their format, so that every
scale matters. Under recipe "blocks", MLPs and experts have more features than a block.
"""

import numpy
import pytest
from emulated_gpt import CONTEXT, MODEL, SPARSE_MODEL, VOCAB, draw_weights, loss_and_gradients

import hawser

ROWS, MICRO = 4, 2
RATE = 2e-2
STEPS, HISTORY, DISCARDED, FEW_TARGETS = 20, 4, 7, (3, 12)
E4M3, E5M2 = (3, 7, 448.0, -116, 120), (2, 15, 57344.0, -109, 113)  # fraction, bias, largest, least e, largest e


def rounded(x, form, maximum, margin):
    """Rounds to the nearest numbers of the format, with the powers of two of these maxima."""
    fraction, bias, largest, least, most = form
    e = numpy.full(numpy.shape(maximum), least)
    while (small := (maximum > numpy.ldexp(largest, e - margin)) & (e < most)).any():
        e += small
    y = numpy.minimum(numpy.abs(numpy.ldexp(x, -e)), largest)
    unit = numpy.ldexp(1.0, numpy.maximum(numpy.frexp(y)[1] - 1, 1 - bias) - fraction)
    return numpy.copysign(numpy.ldexp(numpy.round(y / unit) * unit, e), x)  # NumPy rounds to even


def block_maxima(x, axes):
    """Returns, for each number, the largest magnitude of its block: up to 128 numbers along each of the axes."""
    most = numpy.abs(x)
    for axis in axes:
        of_blocks = numpy.maximum.reduceat(most, numpy.arange(0, x.shape[axis], 128), axis)
        most = numpy.repeat(of_blocks, 128, axis).take(numpy.arange(x.shape[axis]), axis)
    return most


def own_blocks(role, x, over_tokens):
    """Returns the maxima of recipe "blocks". A micro-batch has fewer than 128 tokens, so a column is one block."""
    if role == "w":
        return block_maxima(x, (-2, -1))
    assert len(x) * x.shape[1] <= 128
    return numpy.abs(x).max((0, 1), keepdims=True) if over_tokens else block_maxima(x, (-1,))


class Scales:
    """The maxima of operands: of this step, and of the committed ones before."""

    def __init__(self, recipe, margin):
        self.recipe, self.margin, self.now, self.past = recipe, margin, {}, []

    @staticmethod
    def narrow(x):
        """Rounds to bf16, to nearest even."""
        bits = numpy.ascontiguousarray(numpy.asarray(x), dtype=numpy.float32).view(numpy.uint32)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        return bits.astype(numpy.uint32).view(numpy.float32).astype(numpy.float64)

    def operand(self, key, x, over_tokens=False):
        form = E5M2 if key[1] == "dy" else E4M3
        if self.recipe == "blocks":
            return rounded(x, form, own_blocks(key[1], x, over_tokens), self.margin)
        own = numpy.abs(x).max()
        self.now[key] = max(self.now.get(key, 0.0), own)
        first = 64.0 if key[1] == "x" else 1.0
        past = max((step[key] for step in self.past if key in step), default=0.0) or first
        return rounded(x, form, past if self.recipe == "delayed" else own, self.margin)

    def end(self, committed):
        if committed:
            self.past = (self.past + [self.now])[-HISTORY:]
        self.now = {}


def emulate(p, scales, tokens, targets):
    """Returns the loss and the gradients of a step of two micro-batches."""
    count, loss, grads = (targets >= 0).sum(), 0, {}
    for rows in (slice(0, MICRO), slice(MICRO, ROWS)):
        part, more = loss_and_gradients(scales, p, tokens[rows], targets[rows], count)
        loss += part
        grads = {name: grads.get(name, 0) + g for name, g in more.items()}
    return loss, grads


def config(recipe, margin, model):
    fp8 = {"recipe": recipe, "margin": margin}
    if recipe == "delayed":
        fp8["history"] = HISTORY
    return {
        "precision": "fp8",
        "fp8": fp8,
        "model": model,
        **({"moe": {"aux_loss": 0, "z_loss": 0}} if "moe" in model else {}),
        "batch": {"micro_batch": MICRO, "grad_accum_steps": ROWS // MICRO, "sequence": CONTEXT},
        "optimizer": {"learning_rate": RATE},
        "schedule": {"kind": "constant", "warmup_steps": 0},
        "cpu": {"threads": 1},
    }  # fmt: skip


def distance(a, b):
    return numpy.sqrt(sum(((a[n] - b[n]) ** 2).sum() for n in b) / sum((g**2).sum() for g in b.values()))


@pytest.mark.parametrize("model", [MODEL, SPARSE_MODEL], ids=["dense", "experts"])
@pytest.mark.parametrize("margin", [0, 11])
@pytest.mark.parametrize("recipe", ["current", "delayed", "blocks"])
def test_twenty_steps_are_those_of_the_emulation(recipe, margin, model):
    random = numpy.random.default_rng(11)
    if recipe == "blocks":
        model = {**model, "mlp_width": 136}
        if "moe" in model:
            model["moe"] = {**model["moe"], "width": 140}
    engine = hawser.Engine(config(recipe, margin, model))
    draw_weights(engine, random)
    scales, differences = Scales(recipe, margin), []
    for step in range(STEPS):
        p = {t["name"]: engine.tensor(t["name"]).astype(numpy.float64) for t in engine.tensors()}
        tokens = random.integers(0, VOCAB, (ROWS, CONTEXT))
        targets = random.integers(0, VOCAB, (ROWS, CONTEXT))
        targets[random.random(targets.shape) < (0.95 if step in FEW_TARGETS else 0.2)] = -100
        targets[0, 0] = 1
        loss, grads = emulate(p, scales, tokens, targets)
        engine.push(tokens.astype(numpy.int32), targets.astype(numpy.int32))
        result = engine.forward_backward()
        size = numpy.sqrt(sum((g * g).sum() for g in grads.values()))
        differences.append((abs(result.loss - loss) / loss, abs(result.grad_norm - size) / size,
                            distance({n: engine.tensor(n, kind="gradient") for n in grads}, grads)))  # fmt: skip
        if step == DISCARDED:
            engine.discard()
        else:
            engine.commit()
        scales.end(step != DISCARDED)
    losses, norms, gradients = numpy.array(differences).T
    assert numpy.median(losses) < 1e-6 and losses.max() < 1e-3, losses
    assert numpy.median(norms) < 5e-4 and norms.max() < 1e-2, norms
    assert numpy.median(gradients) < 5e-3 and gradients.max() < 5e-2, gradients
