"""Cloud Build: builds that queue, run, write their log into the bucket and push an image.

https://cloud.google.com/build/docs/api/reference/rest/v1/projects.locations.builds
"""

import hashlib
import io
import re
import tarfile
import uuid
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from .call import Call
from .errors import ApiError

if TYPE_CHECKING:
    from .cloud import Cloud

TAG = re.compile(r"[\w][\w.-]{0,127}")
TAG_FILTER = re.compile(r'tags\s*=\s*"([^"]*)"')
QUEUED_S = 5.0


@dataclass
class Build:
    message: dict[str, Any]
    created: datetime
    #: Names of the files in the archive.
    files: list[str] = field(default_factory=list)


class Locations:
    prefix = "cloudbuild.projects.locations"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud

    def getDefaultServiceAccount(self, call: Call) -> dict[str, Any]:
        self.cloud.resource(call.name, "cloudbuild.builds.get")
        account = self.cloud.builds.account
        email = f"projects/{self.cloud.project}/serviceAccounts/{account}" if account else ""
        return {"name": call.name, "serviceAccountEmail": email}


class Builds:
    """The builds. `seconds`, `ends` and `log` are the duration, result and log of each; `push` stores its image."""

    prefix = "cloudbuild.projects.locations.builds"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        self.builds: dict[str, Build] = {}
        self.seconds, self.ends = 30.0, "SUCCESS"
        #: The account of builds that name none; empty if the organization forbids a default account.
        self.account = cloud.accounts.compute
        self.log = ["FETCHSOURCE", "BUILD", "PUSH", "DONE"]

    def create(self, call: Call) -> dict[str, Any]:
        parent = self.cloud.resource(call.parent, "cloudbuild.builds.create")
        asked = call.body
        self.check(asked)
        self.act_as(asked.get("serviceAccount", "").rpartition("/")[2] or self.cloud.accounts.compute)
        id_ = str(uuid.uuid4())
        name = f"{parent}/builds/{id_}"
        link = f"https://console.cloud.google.com/cloud-build/builds;region={self.cloud.region}/{id_}"
        made = asked | {"name": name, "id": id_, "projectId": self.cloud.project, "status": "QUEUED", "logUrl": link}
        build = Build(made, self.cloud.clock.now(), self.unpack(asked["source"]["storageSource"]))
        made["createTime"] = build.created.isoformat().replace("+00:00", "Z")
        self.builds[id_] = build
        metadata = {"@type": "type.googleapis.com/google.devtools.cloudbuild.v1.BuildOperationMetadata", "build": made}
        return {"name": f"operations/build/{self.cloud.project}/{id_}", "metadata": metadata}

    def get(self, call: Call) -> dict[str, Any]:
        self.cloud.resource(call.name, "cloudbuild.builds.get")
        id_ = call.name.rpartition("/")[2]
        if id_ not in self.builds:
            raise ApiError(404, f"Requested entity was not found: {call.name}")
        return self.now(self.builds[id_])

    def act_as(self, account: str) -> None:
        """Checks that the caller may act as the account, which Cloud Build names by its number."""
        if self.cloud.policies.lacks("iam.serviceAccounts.actAs"):
            number = self.cloud.accounts.accounts.get(account, {}).get("uniqueId", account)
            named = f"projects/{self.cloud.project}/serviceAccounts/{number}"
            raise ApiError(403, f"caller does not have permission to act as service account {named}")

    def check(self, asked: dict[str, Any]) -> None:
        """Raises ApiError for a build that Cloud Build refuses: https://cloud.google.com/build/docs/troubleshooting"""
        if not asked.get("steps"):
            raise ApiError(400, "invalid build: no build steps specified")
        for tag in asked.get("tags", ()):
            if not TAG.fullmatch(tag):
                raise ApiError(400, f"invalid build: invalid build tag {tag!r}")
        kept = asked.get("logsBucket") or asked.get("options", {}).get("logging") in ("CLOUD_LOGGING_ONLY", "NONE")
        if asked.get("serviceAccount") and not kept:
            what = "the build must either specify 'build.logs_bucket' or log to Cloud Logging only"
            raise ApiError(400, f"invalid argument: if 'build.service_account' is specified, {what}")
        if not re.fullmatch(r"(projects/[\w-]+/serviceAccounts/.+@.+)?", asked.get("serviceAccount", "")):
            raise ApiError(400, f"invalid service account {asked['serviceAccount']!r}")

    def unpack(self, source: dict[str, str]) -> list[str]:
        path = f"/storage/v1/b/{source['bucket']}/o/{quote(source['object'], safe='')}?alt=media"
        self.cloud.storage.upstream()
        status, _, content = self.cloud.storage.ask("GET", path)
        if status != 200:
            raise ApiError(404, f"could not find the source gs://{source['bucket']}/{source['object']}")
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
            return [member.name for member in tar if member.isfile()]

    def now(self, build: Build) -> dict[str, Any]:
        """Returns the build at this time; writes its log so far, and pushes its image once it has ended."""
        passed = (self.cloud.clock.now() - build.created).total_seconds() - QUEUED_S
        if build.message["status"] in ("QUEUED", "WORKING") and passed > 0:
            build.message["status"] = "WORKING"
            done = min(1.0, passed / self.seconds)
            self.write(build, self.log[: round(done * len(self.log))])
            if done == 1.0:
                self.end(build)
        return build.message

    def end(self, build: Build) -> None:
        build.message["status"] = self.ends
        if self.ends != "SUCCESS":
            build.message["failureInfo"] = {"type": "USER_BUILD_STEP", "detail": "the build step 0 failed: exit 1"}
            return
        images = []
        for step in build.message["steps"]:
            names = [word for before, word in pairwise(step["args"]) if before == "--tag"]
            digest = f"sha256:{hashlib.sha256((build.message['id'] + ' '.join(names)).encode()).hexdigest()}"
            tags = [each.rpartition(":")[2] for each in names]
            self.cloud.artifacts.add_image(f"{names[0].rpartition(':')[0]}@{digest}", *tags)
            images += [{"name": each, "digest": digest} for each in names]
        pushed = [image for image in images if image["name"] in build.message["images"]]
        build.message["results"] = {"images": pushed, "buildStepImages": [""] * len(build.message["steps"])}

    def write(self, build: Build, lines: list[str]) -> None:
        bucket, _, folder = build.message["logsBucket"].removeprefix("gs://").partition("/")
        name = f"{folder}/log-{build.message['id']}.txt".lstrip("/")
        query = urlencode({"uploadType": "media", "name": name})
        text = "".join(f"{line}\n" for line in lines)
        self.cloud.storage.ask("POST", f"/upload/storage/v1/b/{bucket}/o?{query}", {}, text.encode())

    def list(self, call: Call) -> dict[str, Any]:
        self.cloud.resource(call.parent, "cloudbuild.builds.list")
        found = TAG_FILTER.fullmatch(call.query.get("filter", ""))
        if "filter" in call.query and not found:
            raise ApiError(400, f'this server knows the filter tags="...", got {call.query["filter"]!r}')
        newest = sorted(self.builds.values(), key=lambda build: build.created, reverse=True)
        chosen = [build for build in newest if not found or found[1] in build.message.get("tags", ())]
        return {"builds": [self.now(build) for build in chosen]}
