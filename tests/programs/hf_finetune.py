"""Fine-tuning with the Hugging Face Trainer: a tiny random model, random local data, accumulation and evaluation."""

import argparse
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--eval-steps", type=int, default=15)
parser.add_argument("--device", default="cpu")
args = parser.parse_args()


class RandomSentences(torch.utils.data.Dataset):
    def __init__(self, length, seed):
        generator = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(0, 200, (length, 24), generator=generator)
        self.labels = torch.randint(0, 2, (length,), generator=generator)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        tokens = self.tokens[index]
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": self.labels[index]}


class PrintingTrainer(Trainer):
    loss_of_step = 0.0

    def training_step(self, *arguments, **options):
        loss = super().training_step(*arguments, **options)
        self.loss_of_step += loss.item()
        return loss


class PrintLosses(TrainerCallback):
    def on_step_end(self, arguments, state, control, **_):
        print(f"step {state.global_step - 1} {trainer.loss_of_step.hex()}", flush=True)
        trainer.loss_of_step = 0.0

    def on_evaluate(self, arguments, state, control, metrics, **_):
        print(f"eval {state.global_step} {metrics['eval_loss'].hex()}", flush=True)


torch.manual_seed(args.seed)
model = BertForSequenceClassification(
    BertConfig(
        vocab_size=200,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=96,
        max_position_embeddings=32,
    )
)
print("parameters", sum(p.numel() for p in model.parameters()), "in", len(list(model.parameters())), "tensors")
with tempfile.TemporaryDirectory() as folder:
    trainer = PrintingTrainer(
        model=model,
        args=TrainingArguments(
            output_dir=folder,
            max_steps=args.steps,
            per_device_train_batch_size=8,
            per_device_eval_batch_size=8,
            gradient_accumulation_steps=2,
            eval_strategy="steps",
            eval_steps=args.eval_steps,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=args.device == "cpu",
            seed=args.seed,
            logging_strategy="no",
        ),
        train_dataset=RandomSentences(256, args.seed),
        eval_dataset=RandomSentences(16, args.seed + 1),
        callbacks=[PrintLosses()],
    )
    trainer.remove_callback(PrinterCallback)  # it prints how long an evaluation took
    trainer.train()
