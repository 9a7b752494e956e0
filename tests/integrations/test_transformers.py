"""The Trainer of Transformers with the mixin, on a tiny BERT with random weights."""

import numpy as np
import pytest
import torch
from optional import optional, slow
from refusals import refused
from torch.utils.data import Dataset

import class_uncertainty as cu
from class_uncertainty.integrations.torch import WithIndex

pytestmark = [slow, pytest.mark.filterwarnings("ignore")]
LABELS = np.repeat([0, 1, 2], [60, 24, 6])
EPOCHS = 5


class Rows(Dataset):
    """Six token ids, those of the class among them."""

    def __len__(self):
        return len(LABELS)

    def __getitem__(self, i):
        rng, label = np.random.default_rng(i), int(LABELS[i])
        ids = np.where(rng.random(6) < 0.5, 1 + label, rng.integers(4, 10, 6))
        return {"input_ids": torch.tensor(ids), "labels": label}


def trainer_of(folder, **about):
    optional("accelerate")
    transformers = optional("transformers")
    from class_uncertainty.integrations.transformers import ClassUncertaintyMixin

    class Watched(ClassUncertaintyMixin, transformers.Trainer):
        steps: list

        def _loss(self, outputs, labels, num_items_in_batch=None):
            loss = super()._loss(outputs, labels, num_items_in_batch)
            if self.model.training:
                epoch = int(self.state.epoch or 0)
                self.steps.append((epoch, outputs["logits"].detach(), labels, num_items_in_batch, loss.detach()))
            return loss

    transformers.set_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=10, num_labels=3, max_position_embeddings=8, **sizes)
    arguments = transformers.TrainingArguments(
        str(folder), num_train_epochs=EPOCHS, per_device_train_batch_size=15, use_cpu=True, report_to=[],
        logging_strategy="no", disable_tqdm=True, data_seed=3, **{"save_strategy": "no"} | about.pop("arguments", {}),
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(config)
    data = {"train_dataset": WithIndex(Rows()), "eval_dataset": Rows(), "labels": LABELS, "classes": ["a", "b", "c"]}
    trainer = Watched(model, arguments, **data | about)
    trainer.steps = []
    return trainer


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("method", ["2s-ubrw", "cb-focal"])
def test_the_loss_is_the_method_s_in_every_epoch(tmp_path, method, accumulate):
    uncertainty = [0.2, 0.3, 0.6]
    arguments = {"gradient_accumulation_steps": accumulate}
    trainer = trainer_of(tmp_path, method=method, uncertainty=uncertainty, arguments=arguments)
    trainer.train()
    loss = cu.Loss(method, np.bincount(LABELS), uncertainty, epochs=EPOCHS)
    assert len(trainer.steps) == EPOCHS * 6
    for epoch, logits, labels, items, lost in trainer.steps:
        loss.set_epoch(epoch)
        assert items == 15 * accumulate
        torch.testing.assert_close(lost, loss(logits, labels) / accumulate, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", ["cb", "2s-csce", "ubrw"])
def test_accumulated_batches_have_the_loss_of_one_large_batch(tmp_path, method):
    """Also for rows that divide by the sum of weights; the last step of an epoch has fewer batches."""
    uncertainty = [0.2, 0.3, 0.6]
    trainer = trainer_of(tmp_path, method=method, uncertainty=uncertainty, arguments={"gradient_accumulation_steps": 4})
    trainer.train()
    loss = cu.Loss(method, np.bincount(LABELS), uncertainty, epochs=EPOCHS)
    for epoch in range(EPOCHS):
        loss.set_epoch(epoch)
        batches = [step for step in trainer.steps if step[0] == epoch]
        assert len(batches) == 6
        for parts in (batches[:4], batches[4:]):
            logits, labels = (torch.cat([part[place] for part in parts]) for place in (1, 2))
            torch.testing.assert_close(sum(part[4] for part in parts), loss(logits, labels))


def test_draws_uncertainty_and_audit(tmp_path):
    from class_uncertainty.workflows.audit import audit

    trainer = trainer_of(tmp_path, method="pb-rs", compute_metrics=lambda evaluated: {"rows": len(evaluated.label_ids)})
    trainer.train()
    expected = cu.ClassSampler.for_method("pb-rs", LABELS, epochs=EPOCHS, seed=3)
    for epoch in range(EPOCHS):
        expected.set_epoch(epoch)
        drawn = torch.cat([labels for number, _, labels, _, _ in trainer.steps if number == epoch])
        assert drawn.tolist() == LABELS[list(expected)].tolist()
    assert trainer.estimate.mu.sum() == pytest.approx(1)
    assert int(trainer.parts.online.sums["seen"].sum()) == EPOCHS * len(LABELS)
    metrics = trainer.evaluate()
    p = torch.tensor(trainer.predict(Rows()).predictions).double().softmax(dim=1).numpy()
    figures = audit(LABELS, p, counts=np.bincount(LABELS)).figures
    assert metrics["eval_class_mean_error"] == pytest.approx(figures.error)
    assert trainer.audit.figures.error == pytest.approx(figures.error)
    assert metrics["eval_rows"] == len(LABELS)


def test_it_goes_on_from_a_checkpoint(tmp_path):
    """From the middle of the third epoch, in another Trainer."""
    whole = trainer_of(tmp_path, arguments={"save_strategy": "steps", "save_steps": 15})
    whole.train()
    again = trainer_of(tmp_path)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-15"))
    assert len(again.steps) == EPOCHS * 6 - 15
    assert again.parts.online.sums["seen"].tolist() == [EPOCHS] * len(LABELS)
    np.testing.assert_allclose(again.estimate.mu, whole.estimate.mu, rtol=1e-4)


def test_wrong_input_is_refused(tmp_path):
    with refused("'crt' needs", "cu.fit"):
        trainer_of(tmp_path, method="crt")
    with refused("compute_loss_func"):
        trainer_of(tmp_path, compute_loss_func=lambda *_: None)
    with refused("'2s-csce'", "epochs="):
        trainer_of(tmp_path, method="2s-csce", arguments={"max_steps": 10})
