"""Fine-tunes a model with TRL's SFTTrainer. fine_tuning.py runs this program; its last line is JSON.

    python3 tests/bench/sft_peer.py FOLDER ROWS packed|unpacked STEPS MICRO_BATCH TOKENS THREADS SCRATCH

Packed: TRL packs rows by best fit and computes no padding. Unpacked: rows are grouped by length, and a batch is padded to
its longest row. The loss covers the completions, as in Hawser.
"""

import json
import sys
import time

import torch
import transformers
import trl
from datasets import load_dataset

WARM = 2  # steps that are not measured


class Steps(transformers.TrainerCallback):
    def __init__(self):
        self.seconds = []

    def on_step_begin(self, *_, **__):
        self.begin = time.perf_counter()

    def on_step_end(self, *_, **__):
        self.seconds.append(time.perf_counter() - self.begin)


def main():
    folder, rows, form, steps, micro_batch, tokens, threads, scratch = sys.argv[1:]
    torch.set_num_threads(int(threads))
    transformers.logging.set_verbosity_error()
    config = trl.SFTConfig(
        output_dir=f"{scratch}/out",
        max_steps=int(steps),
        per_device_train_batch_size=int(micro_batch),
        gradient_accumulation_steps=1,
        learning_rate=1e-4,
        lr_scheduler_type="constant",
        max_length=int(tokens),
        packing=form == "packed",
        train_sampling_strategy="random" if form == "packed" else "group_by_length",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        seed=1,
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    measured = Steps()
    trainer = trl.SFTTrainer(
        model=model,
        args=config,
        train_dataset=load_dataset("json", data_files=rows, split="train", cache_dir=scratch),
        processing_class=transformers.AutoTokenizer.from_pretrained(folder),
        callbacks=[measured],
    )
    learned = []
    compute_loss = trainer.compute_loss

    def counted(model, inputs, *more, **named):
        learned.append(int((inputs["labels"] != -100).sum()))
        return compute_loss(model, inputs, *more, **named)

    trainer.compute_loss = counted
    trainer.train()
    print(json.dumps({
        "learned": sum(learned[WARM:]),
        "seconds": sum(measured.seconds[WARM:]),
        "versions": f"TRL {trl.__version__}, Transformers {transformers.__version__}, PyTorch {torch.__version__}",
    }))


main()
