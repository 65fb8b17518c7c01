"""Google's error answers: https://cloud.google.com/apis/design/errors#http_mapping."""

from typing import Any

STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
TYPES = "type.googleapis.com/google.rpc."


class ApiError(Exception):
    """An error answer of Google's APIs."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        status: str | None = None,
        details: list[dict[str, Any]] | None = None,
        headers: dict[str, str] | None = None,
    ):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status or STATUS.get(code, "UNKNOWN")
        self.details = details or []
        self.headers = headers or {}

    def as_json(self) -> dict[str, Any]:
        error = {"code": self.code, "message": self.message, "status": self.status}
        return {"error": {**error, "details": self.details} if self.details else error}


def bad_request(violations: list[tuple[str, str]], message: str) -> ApiError:
    """Returns the 400 with each violation as (field, description)."""
    named = [{"field": field, "description": text} if field else {"description": text} for field, text in violations]
    return ApiError(400, message, details=[{"@type": TYPES + "BadRequest", "fieldViolations": named}])


def precondition_error(message: str) -> ApiError:
    return ApiError(400, message, status="FAILED_PRECONDITION")


def permission_error(permission: str, resource: str) -> ApiError:
    """Returns the 403 of Vertex AI, which leaves open whether the resource exists."""
    info = {
        "@type": TYPES + "ErrorInfo",
        "reason": "IAM_PERMISSION_DENIED",
        "domain": resource.split("/")[2],
        "metadata": {"permission": permission, "resource": resource.split("/", 3)[3]},
    }
    return ApiError(
        403, f"Permission '{permission}' denied on resource '{resource}' (or it may not exist).", details=[info]
    )
