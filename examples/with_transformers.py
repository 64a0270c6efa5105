"""Wrap, train with the Hugging Face Trainer, unwrap and save: a collator that groups, and a loss."""

import tempfile

import torch
import transformers

from agrlearn import aggregate, cross_entropy, group, predict, single
from agrlearn.data.text import Vocabulary

FOLD = 2
GOOD = ["a fine and moving film", "what a fine cast", "moving and warm", "a warm and fine story"]
BAD = ["a dull and empty film", "what a dull plot", "empty and cold", "a cold and dull story"]


def collate_groups(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Consecutive rows become groups; the Trainer shuffles the rows."""
    return {name: group(tensor, FOLD) for name, tensor in transformers.default_data_collator(rows).items()}


class AggregatedTrainer(transformers.Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **_):
        labels = inputs.pop("labels")
        logits = model(inputs)
        loss = cross_entropy(logits, labels)
        return (loss, {"logits": logits}) if return_outputs else loss


def main(epochs: int = 12) -> float:
    transformers.set_seed(0)
    sentences, labels = GOOD * 16 + BAD * 16, torch.tensor([1] * 64 + [0] * 64)
    words = Vocabulary.of(sentences)
    tokens = words.encode(sentences)
    config = transformers.BertConfig(
        vocab_size=words.size, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        num_labels=2,
    )  # fmt: skip
    objects = {"input_ids": tokens, "attention_mask": (tokens != 0).long()}
    model = transformers.BertForSequenceClassification(config)
    network = aggregate(model, FOLD, {name: tensor[:2] for name, tensor in objects.items()})
    rows = [
        {"input_ids": i, "attention_mask": m, "labels": y} for i, m, y in zip(*objects.values(), labels, strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, num_train_epochs=epochs, per_device_train_batch_size=16 * FOLD, learning_rate=2e-3, report_to=[],
            save_strategy="no", logging_strategy="no", remove_unused_columns=False, dataloader_drop_last=True,
            label_names=["labels"], use_cpu=True, disable_tqdm=True,
        )  # fmt: skip
        AggregatedTrainer(network, arguments, train_dataset=rows, data_collator=collate_groups).train()
        single(network).save_pretrained(folder)
        model = transformers.BertForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        scores = model(**objects).logits
    torch.testing.assert_close(scores.softmax(dim=1), predict(network, objects))
    error = (scores.argmax(dim=1) != labels).float().mean().item()
    print(f"{type(model).__name__} with the trained weights: training error {error:.2%}")
    return error


if __name__ == "__main__":
    main()
