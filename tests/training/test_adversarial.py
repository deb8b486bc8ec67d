"""The settings that all adversarial methods share."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, fields
from typing import Any, get_args

import pytest

from sfumato.errors import SfumatoError
from sfumato.methods import METHODS, find_method
from sfumato.training.adversarial import AdversarialConfig, setting
from sfumato.training.opponents import Confusion, Kind
from sfumato.training.options import load_options, to_dict

CONFIGS: list[type[Any]] = [AdversarialConfig, *(find_method(name).config for name in METHODS.names())]


def refusal(*settings: str) -> SfumatoError:
    with pytest.raises(SfumatoError) as error:
        load_options(AdversarialConfig, settings=settings)
    return error.value


def test_a_setting_keeps_its_symbol_and_its_range() -> None:
    @dataclass(frozen=True)
    class Config:
        weight: float = setting(0.5, "ω", low=0, high=1)
        steps: int = setting(3, low=0)
        name: str = setting("a")

    about = {entry.name: dict(entry.metadata) for entry in fields(Config)}
    assert about == {"weight": {"symbol": "ω", "low": 0, "high": 1}, "steps": {"low": 0}, "name": {}}
    assert Config() == Config(0.5, 3, "a")


def test_the_defaults_are_the_papers() -> None:
    config = AdversarialConfig()
    assert (config.utility, config.networks(), config.budget, config.positives) == (
        "r3d-18",
        ("resnet-50",),
        "nt-xent",
        "any",
    )
    assert (config.budget_weight, config.temperature) == (1.0, 0.1)
    # frozen batch statistics can be fooled without removing anything, and f_A's would mix two data sets
    assert config.budget_norm == config.anonymizer_norm == "group"
    assert config.anonymizer_rate == config.utility_rate == config.budget_rate == 1e-4
    assert config.reconstruction_rate == 1e-3


def test_a_config_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        AdversarialConfig().batch = 8  # type: ignore[misc]


@pytest.mark.parametrize("kind", CONFIGS)
def test_every_setting_can_be_given_as_text_and_the_defaults_fit(kind: type[Any]) -> None:
    config = kind()
    assert load_options(kind, settings=[f"{name}={value}" for name, value in to_dict(config).items()]) == config
    assert kind(**to_dict(config)) == config  # how another process is told


def test_several_budget_models_are_joined_by_plus() -> None:
    assert AdversarialConfig(budget_models="resnet-50+mobilenet-v1").networks() == ("resnet-50", "mobilenet-v1")
    assert AdversarialConfig(budget_models="r3d-18 + tiny-frame").networks() == ("r3d-18", "tiny-frame")


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_kind_of_budget_is_a_word_away(kind: str) -> None:
    assert load_options(AdversarialConfig, settings=[f"budget={kind}"]).budget == kind


def test_words_and_ranges_are_checked_by_name() -> None:
    assert refusal("budget=mocco").next_step == f"use one of {', '.join(get_args(Kind))}"
    assert refusal("confusion=both").next_step == f"use one of {', '.join(get_args(Confusion))}"
    assert str(refusal("temperature=0")) == "temperature (τ) = '0' does not fit: use a finite number of at least 0.001"
    assert str(refusal("privacy_batch=1")) == "privacy_batch = '1' does not fit: use a whole number of at least 2"
    assert "steps = '0' does not fit" in str(refusal("steps=0"))
    assert "did you mean 'budget_weight'" in str(refusal("budget_wieght=1"))


def test_a_rule_for_positives_is_checked_before_any_training() -> None:
    assert refusal("positives=near").what == "positives = 'near' is no rule"
    assert load_options(AdversarialConfig, settings=["positives=<8"]).positives == "<8"


def test_a_history_needs_restarts() -> None:
    error = refusal("history=2")
    assert (error.what, error.next_step) == (
        "history keeps f_B that were restarted, and none is",
        "set restart_steps too",
    )
    assert load_options(AdversarialConfig, settings=["history=2", "restart_steps=50"]).history == 2


def test_a_frozen_budget_model_does_not_begin_anew() -> None:
    error = refusal("restart_steps=50", "budget_update=frozen")
    assert error.what == "a frozen f_B that begins anew would know nothing"
    assert error.next_step == "set restart_steps to 0"
    assert load_options(AdversarialConfig, settings=["budget_update=frozen"]).budget_update == "frozen"


def test_a_beginner_s_loss_is_no_reason_to_stop() -> None:
    error = refusal("restart_steps=50", "budget_maximum=0.6")
    assert error.what == "an f_B that has just begun anew reads nothing, which budget_maximum would take for the end"
    for settings in (["restart_steps=50"], ["budget_maximum=0.6"]):
        load_options(AdversarialConfig, settings=settings)


def test_queues_of_different_lengths_are_not_compared() -> None:
    assert "how full each f_B's queue is" in refusal("strongest=true", "budget=moco").what
    for settings in (["strongest=true"], ["budget=moco"]):
        load_options(AdversarialConfig, settings=settings)


def test_labels_need_somebody_to_read_them() -> None:
    error = refusal("budget=labels", "budget_update=none")
    assert error.what == "budget_update = none leaves nothing for labels to do"
    assert error.next_step == "set budget_update to updated"
    for settings in (["budget=labels"], ["budget_update=none"]):
        load_options(AdversarialConfig, settings=settings)


def test_one_shade_shows_nothing() -> None:
    assert refusal("levels=1").what == "levels = 1 leaves nothing to see"
    assert [load_options(AdversarialConfig, settings=[f"levels={n}"]).levels for n in (0, 2)] == [0, 2]


def test_only_spacts_network_has_a_dilated_last_stage() -> None:
    error = refusal("utility=tiny-video", "utility_dilated=true")
    assert (error.what, error.next_step) == ("'tiny-video' has no dilated last stage", "set utility to r3d-18")
    assert load_options(AdversarialConfig, settings=["utility_dilated=true"]).utility == "r3d-18"


@pytest.mark.parametrize("player", ["utility", "budget_models", "auditor"])
def test_networks_are_looked_up_before_any_training(player: str) -> None:
    assert "did you mean 'resnet-18'" in str(refusal(f"{player}=resnet18"))


def test_what_a_labelled_opponent_is_told_is_a_word() -> None:
    assert refusal("budget_labels=names").next_step == "use one of attributes, identity, both"
