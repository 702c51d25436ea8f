"""Choices of comparisons and gates."""

from spark_eval.conventions.choice import Choice


class PairTest(Choice):
    """Test of the differences of users; sign and wilcoxon do not test the mean."""

    T = "t", "paired t: the mean difference is 0"
    SIGN = "sign", "as many users go up as down; not about the mean"
    WILCOXON = "wilcoxon", "signed ranks: differences lie symmetrically about 0; not about the mean"
    RANDOMIZATION = "randomization", "signs of differences are flipped by chance"
    BOOTSTRAP = "bootstrap", "users are drawn again; interval by percentiles"
    BCA = "bca", "the same, corrected for bias and skewness"


class Interval(Choice):
    """Interval in the rows of tests that have no interval of their own."""

    T = "t", "mean -+ t * std_error"
    BOOTSTRAP = "bootstrap", "percentiles of resampled means"
    BCA = "bca", "the same, corrected for bias and skewness"


class Correction(Choice):
    """Correction of the p-values of one test for multiple comparisons."""

    HOLM = "holm", "no more than 1 - confidence that any is a false alarm"
    BONFERRONI = "bonferroni", "the same, by their number alone"
    BH = "bh", "the expected share of false alarms (Benjamini-Hochberg)"
    NONE = "none", "as they are"


class Alternative(Choice):
    """Alternative hypothesis."""

    TWO_SIDED = "two_sided", "a difference to either side"
    GREATER = "greater", "the candidate's values are greater"
    LESS = "less", "the candidate's values are less"


class Zeros(Choice):
    """Treatment of users without a difference in wilcoxon."""

    PRATT = "pratt", "they are ranked, then left out"
    WILCOX = "wilcox", "they are left out, then the others are ranked"
    ZSPLIT = "zsplit", "they are ranked, and count half to either side"


class Question(Choice):
    """Subject of a comparison of models with repeats."""

    ARTEFACT = "artefact", "these lists, or the means of their repeats; seeds count as fixed"
    RECIPE = "recipe", "the way the models are made: users and repeats vary"


class Drop(Choice):
    """Unit of ``max_drop``."""

    ABSOLUTE = "absolute", "the metric's own unit"
    RELATIVE = "relative", "the baseline's mean: .05 is 5 % of it"


class Mode(Choice):
    """Condition for a model to pass a gate."""

    NON_INFERIOR = "non_inferior", "where it is certain that it is not worse; no evidence, no pass"
    CERTAIN_DROP = "certain_drop", "unless it is certain that it is worse; for alerts"
    OBSERVED = "observed", "where the values themselves are not worse, whatever chance does"


class Decision(Choice):
    """Decision of a gate."""

    WORSE = "worse", "it is certain that the model falls by more than max_drop"
    NOT_WORSE = "not_worse", "it is certain that it does not"
    UNDECIDED = "undecided", "there are not enough users to tell"
    NO_BASELINE = "no_baseline", "there is nothing to compare with yet"


class SliceVerdict(Choice):
    """Result of the test of a slice."""

    LOSES = "loses", "it is certain that the candidate is worse there"
    WINS = "wins", "it is certain that the candidate is better there"
    OPEN = "open", "neither is certain"


class Role(Choice):
    """Role of a slice that loses among the slices that lose."""

    OWN = "own", "it stands for itself"
    PART_OF = "part_of", "it loses as the wider slice does"
    EXPLAINED_BY = "explained_by", "without the narrower slice it does not certainly lose"


class SliceCorrection(Choice):
    """Correction of the p-values of the slices of a pair and a metric."""

    HOLM = "holm", Correction.HOLM.meaning
    BH = "bh", Correction.BH.meaning
