"""Class uncertainty in the Trainer of Transformers, on text: a tiny BERT with random weights learns three topics.

Run it with `python examples/transformers_text.py`; it needs `pip install 'class-uncertainty[transformers,accelerate]'`.
"""

import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

from class_uncertainty.integrations.torch import WithIndex
from class_uncertainty.integrations.transformers import ClassUncertaintyMixin

WORDS = {
    "weather": ["rain", "wind", "cloud", "storm", "sunny", "cold", "warm", "forecast"],
    "sport": ["goal", "match", "team", "coach", "score", "league", "player", "final"],
    "science": ["cell", "atom", "theory", "data", "experiment", "proof", "orbit", "virus"],
}
COMMON = ["the", "a", "of", "and", "to", "in", "it", "was", "for", "on", "with", "as", "today"]
VOCABULARY = {
    word: i for i, word in enumerate(["[PAD]", *COMMON, *(word for words in WORDS.values() for word in words)])
}


class Sentences(Dataset):
    """Sentences of common words and a few of their topic, as token ids."""

    def __init__(self, counts: list[int], seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.labels = np.repeat(np.arange(3), counts)
        self.sentences = []
        for label in self.labels:
            topic = list(WORDS.values())[label]
            words = [rng.choice(topic if rng.random() < 0.5 else COMMON) for _ in range(12)]
            self.sentences.append([VOCABULARY[word] for word in words])

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> dict:
        return {"input_ids": torch.tensor(self.sentences[i]), "labels": int(self.labels[i])}


class BalancedTrainer(ClassUncertaintyMixin, Trainer):
    pass


def main() -> None:
    train, test = Sentences([300, 75, 25], seed=0), Sentences([60, 60, 60], seed=1)
    set_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    model = BertForSequenceClassification(
        BertConfig(vocab_size=len(VOCABULARY), num_labels=3, max_position_embeddings=16, **sizes)
    )
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder,
            num_train_epochs=8,
            per_device_train_batch_size=25,
            learning_rate=3e-3,
            eval_strategy="epoch",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = BalancedTrainer(
            model,
            args,
            train_dataset=WithIndex(train),
            eval_dataset=test,
            labels=train.labels,
            method="balanced-softmax",
            classes=list(WORDS),
        )
        trainer.train()
        metrics = trainer.evaluate()
    print("uncertainty by class:", trainer.estimate.mu.round(3).tolist())
    print(f"class-mean error: {metrics['eval_class_mean_error']:.1f} %")
    print(trainer.audit.summary)


if __name__ == "__main__":
    main()
