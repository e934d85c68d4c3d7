"""Every page of the test project is served under the strictest policy that still allows a site its own files."""

from __future__ import annotations

POLICY = "default-src 'self'; frame-ancestors 'none'"


def strict_policy(get_response):
    def respond(request):
        response = get_response(request)
        response["Content-Security-Policy"] = POLICY
        return response

    return respond
