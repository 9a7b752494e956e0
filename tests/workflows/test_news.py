"""What a workflow tells before it ends."""

from contextlib import AbstractContextManager

from watching import Watched

import class_uncertainty as cu
from class_uncertainty.runs.watcher import Decided, News, RungsJudged, Watcher
from class_uncertainty.training.fit import Progress


class Heard(Watcher):
    """All news of a workflow, and how often it was opened and closed."""

    def __init__(self) -> None:
        self.news: list[News] = []
        self.watched = Watched()
        self.opened = self.closed = 0

    def __call__(self, what: str, networks: int, epochs: int) -> AbstractContextManager[Progress]:
        return self.watched(what, networks, epochs)

    def open(self) -> None:
        self.opened += 1

    def tell(self, news: News) -> None:
        self.news.append(news)

    def close(self) -> None:
        self.closed += 1


def test_a_fix_tells_of_its_rungs_and_its_choice(digits):
    heard = Heard()
    recipe = cu.Recipe("small-conv", epochs=1, batch=32)
    cu.fix(digits, recipe=recipe, candidates=["naive", "cb-rs", "ubrs"], seeds=2, progress=heard)
    kinds = [type(news) for news in heard.news]
    assert kinds[0] is RungsJudged
    assert kinds[-1] is Decided
    assert [len(news.rungs) for news in heard.news if isinstance(news, RungsJudged)] == [1, 2, 3]
    assert sum(heard.watched.announced) == heard.watched.trained
    assert (heard.opened, heard.closed) == (1, 1)
