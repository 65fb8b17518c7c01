"""A bucket as it was at a moment: its object versions tell, if it keeps them all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


@dataclass
class Past:
    """A moment, and what could be seen of it."""

    moment: datetime
    #: By bucket, whether its versions show its state at the moment.
    shown: dict[str, bool] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether all that was listed is the state of the moment."""
        return bool(self.shown) and all(self.shown.values())

    def live(self, bucket: str, versions: Sequence[Any], described: Callable[[], Any]) -> list[Any]:
        """Of all versions of objects, those that were live at the moment; if that cannot be told, those of now."""
        if bucket not in self.shown:
            self.shown[bucket] = self._keeps_versions(versions, described)
        if not self.shown[bucket]:
            return [blob for blob in versions if blob.time_deleted is None]
        born = (blob for blob in versions if blob.time_created <= self.moment)
        return [blob for blob in born if blob.time_deleted is None or blob.time_deleted > self.moment]

    def _keeps_versions(self, versions: Sequence[Any], described: Callable[[], Any]) -> bool:
        """Whether every version that was live at the moment is still there."""
        from google.api_core.exceptions import Forbidden

        try:
            bucket = described()
        except Forbidden:  # storage.buckets.get is in no role of objects alone; older versions speak for themselves
            return any(blob.time_deleted for blob in versions)
        return bool(bucket.versioning_enabled) and all(self._spares(rule) for rule in bucket.lifecycle_rules)

    def _spares(self, rule: Any) -> bool:
        """Whether a rule of the bucket's lifecycle leaves the versions of the moment.

        https://cloud.google.com/storage/docs/lifecycle
        """
        condition = rule.get("condition", {})
        if rule.get("action", {}).get("type") != "Delete" or condition.get("isLive") is True:
            return True
        kept_days = condition.get("daysSinceNoncurrentTime")
        return kept_days is not None and (datetime.now(UTC) - self.moment).days < int(kept_days)
