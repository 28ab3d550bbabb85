"""The example that fine-tunes a Hugging Face folder; the others have tests in the shell."""

import os
import subprocess
import sys

from conftest import ROOT, tiny_config

import hawser

EXAMPLE = ROOT / "bindings" / "python" / "examples" / "finetune.py"


def run(*arguments):
    return subprocess.run([sys.executable, EXAMPLE, *map(str, arguments)], capture_output=True, text=True, env=os.environ)


def test_finetune(tmp_path):
    with hawser.Engine(tiny_config()) as engine:
        engine.export(tmp_path / "base", "f32")
    pairs = tmp_path / "pairs"
    pairs.write_text("".join(f"{i} 5 {i + 20} | {i + 1} {i + 2}\n" for i in range(12)))
    result = run(tmp_path / "base", pairs, tmp_path / "out")
    assert result.returncode == 0, result.stderr
    losses = [float(line.split()[3]) for line in result.stdout.splitlines()]
    assert losses[-1] < 0.5 * losses[0] and "over 16 answer tokens" in result.stdout
    assert (tmp_path / "out" / "model" / "model.safetensors").exists()
    with hawser.Engine(hawser.Config.from_model(tmp_path / "out" / "model"), inference=True) as engine:
        assert list(engine.generate([3, 5, 23], 2, temperature=0)) == [4, 5]
    pairs.write_text("1 2 3\n")
    assert 'finetune: ' in run(tmp_path / "base", pairs, tmp_path / "bad").stderr
    assert run(tmp_path / "none", pairs, tmp_path / "bad").returncode == 1
    assert run().returncode == 2
