"""Stages of a recommender pipeline: candidates, ranking, final list; parsed and checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypedDict

from spark_eval.conventions.choice import Choice
from spark_eval.errors import ConfigError
from spark_eval.kernels.aliases import as_list
from spark_eval.kernels.values import parse_k
from spark_eval.options import Given, check_keys, checked, declared

STAGE_RECALL: Final = "stage_recall"
ADDED_RECALL: Final = "added_recall"
ORACLE: Final = "oracle_"
CONDITIONAL: Final = "conditional_"
EFFICIENCY: Final = "efficiency_"
OVERLAP: Final = "rank_biased_overlap"
REPLACED: Final = "share_replaced"
PROMOTION: Final = "largest_promotion"
STEP_TRUTH: Final = "with_truth"
STEP_CANDIDATES: Final = "with_candidates"
STEP_RELEVANT: Final = "with_relevant_candidate"
STEP_HIT: Final = "with_hit_in_"

STAGES_KEY: Final = "stages"
FEWEST_STAGES: Final = 2
# With more stages, an item could be lost and found again in more ways than there are names.
MOST_STAGES: Final = 3


class StageOptions(TypedDict, total=False):
    """Keys of an entry of the option ``stages``."""

    name: Annotated[str | None, "name of the stage, unique."]
    model: Annotated[str | None, "model whose lists are the stage's output."]
    models: Annotated[
        Sequence[str], "for candidates, instead of model: generators; the output is their union.", ()
    ]
    k: Annotated[
        int | None, "largest rank of the output; applied to each generator.", None, None, None, "INVALID_K"
    ]
    reranks: Annotated[
        str | None, "earlier stage of one model whose list it changes: overlap, share replaced, promotion."
    ]


@dataclass(frozen=True)
class Stage:
    """Output of a stage: the items at ranks up to k of a model's list, or the union over several models.

    ``reranks`` is the name of the earlier stage whose list it is compared with; None if it is not.
    """

    name: str
    models: tuple[str, ...]
    k: int
    reranks: str | None = None

    @property
    def model(self) -> str | None:
        """The only model; None for a union, which has no order."""
        return self.models[0] if len(self.models) == 1 else None


def make_stages(given: Sequence[Given]) -> tuple[Stage, ...]:
    """Parse mappings to stages, candidates first.

    Raises ConfigError INVALID_STAGE, INVALID_K, DUPLICATE_STAGE, TOO_FEW_STAGES, TOO_MANY_STAGES or
    UNKNOWN_CONFIG_KEY.

    >>> stages = make_stages([{"name": "candidates", "models": ["als", "knn"], "k": 500},
    ...                       {"name": "final", "model": "ranker", "k": 10}])
    >>> [(stage.name, stage.model, stage.k) for stage in stages]
    [('candidates', None, 500), ('final', 'ranker', 10)]
    """
    if not given:
        return ()
    stages = tuple(make_stage(f"{STAGES_KEY}.{index}", one, index) for index, one in enumerate(given))
    names = [stage.name for stage in stages]
    if again := next((name for index, name in enumerate(names) if name in names[:index]), None):
        raise ConfigError("DUPLICATE_STAGE", f"{STAGES_KEY}: two stages are named {again!r}; rename one")
    if len(stages) < FEWEST_STAGES:
        message = f"{STAGES_KEY} has only {names[0]!r}; give candidates and at least one later stage"
        raise ConfigError("TOO_FEW_STAGES", message)
    if len(stages) > MOST_STAGES:
        message = f"{STAGES_KEY}: {len(stages)} are given; at most {MOST_STAGES} are supported"
        raise ConfigError("TOO_MANY_STAGES", f"{message}; leave out intermediate stages, or evaluate twice")
    for index, stage in enumerate(stages):
        check_reranked(stage, stages[:index])
    return stages


def check_reranked(stage: Stage, earlier: Sequence[Stage]) -> None:
    """Raise ConfigError INVALID_STAGE unless the reranked stage comes earlier and has an order."""
    if stage.reranks is None:
        return
    where = f"{STAGES_KEY}, stage {stage.name!r}: reranks"
    by_name = {one.name: one for one in earlier}
    if stage.reranks not in by_name:
        raise ConfigError.unknown("INVALID_STAGE", "earlier stage", stage.reranks, by_name, where)
    if by_name[stage.reranks].model is None:
        message = f"{where} names {stage.reranks!r}, a union of several models, which has no order"
        raise ConfigError("INVALID_STAGE", f"{message}; name a stage of one model")


def check_stage_models(stages: Sequence[Stage], models: Sequence[str]) -> None:
    """Raise ConfigError UNKNOWN_MODEL for a stage's model without recommendations."""
    for stage in stages:
        for model in stage.models:
            if model not in models:
                where = f"{STAGES_KEY}, stage {stage.name!r}: it has no recommendations"
                raise ConfigError.unknown("UNKNOWN_MODEL", "model", model, models, where)


def make_stage(key: str, given: Given, index: int) -> Stage:
    """Parse the entry with index ``index`` under a key of the config."""
    if not isinstance(given, Mapping):
        raise ConfigError("INVALID_STAGE", f"{key} is {given!r}; give a mapping of name, model and k")
    check_keys(given, list(declared(StageOptions)), key)
    options: Any = given
    name, model, models, k, reranks = checked(StageOptions, options, key).values()
    if not isinstance(name, str) or not name:
        raise ConfigError("INVALID_STAGE", f"{key} has no name; give it one, such as candidates")
    if k is None:
        raise ConfigError("INVALID_STAGE", f"{key} ({name!r}) has no k; give the largest rank of its lists")
    if (cut := parse_k(k)) is None:
        message = f"{key}.k ({name!r}) is {k!r}; a stage hands on a number of items"
        raise ConfigError("INVALID_K", message)
    return Stage(name, models_of_stage(f"{key} ({name!r})", model, as_list(models), index), cut, reranks)


def models_of_stage(key: str, model: str | None, models: Sequence[str], index: int) -> tuple[str, ...]:
    """Return the models of a stage; raise ConfigError INVALID_STAGE unless they suit its position."""
    chosen = tuple(models) if model is None else (model, *models)
    if not chosen:
        raise ConfigError("INVALID_STAGE", f"{key} has no model; name the model of its lists")
    if model is not None and models:
        raise ConfigError("INVALID_STAGE", f"{key} has both model and models; give one of them")
    if any(not isinstance(one, str) for one in chosen) or len(set(chosen)) < len(chosen):
        raise ConfigError("INVALID_STAGE", f"{key}: models {list(chosen)} are not distinct names")
    if index and len(chosen) > 1:
        message = f"{key} has several models, but their union has no order; only candidates may have several"
        raise ConfigError("INVALID_STAGE", message)
    return chosen


class Fate(Choice):
    """Fate of a user's relevant item, by the stages that have it."""

    KEPT = "kept", "every stage has it"
    LOST_RERANKING = "lost_reranking", "a candidate that the ranking has and the final list does not"
    PROMOTED = "promoted", "a candidate that the ranking leaves out and the final list has"
    LOST_RANKING = "lost_ranking", "a candidate that no later stage has"
    LOST_CANDIDATES = "lost_candidates", "no stage has it"
    OUTSIDE_CANDIDATES = "outside_candidates", "a later stage has it, but it is not a candidate"
