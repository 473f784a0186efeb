package httptool

import (
	"net/http"

	"github.com/toolexec/toolexec"
)

// answer is what a status means for the request that it answers. Class and
// category are those of the code.
type answer struct {
	code     toolexec.Code
	evidence toolexec.Evidence
	// escalate: no change of the arguments helps, although the code says so.
	escalate bool
}

// doubtful: it may have happened.
func doubtful(c toolexec.Code) answer { return answer{code: c} }

// refused: nothing was changed.
func refused(c toolexec.Code) answer {
	return answer{code: c, evidence: toolexec.EvidenceRejected}
}

// refusedForGood: nothing was changed, and a person must see to it.
func refusedForGood(c toolexec.Code) answer {
	a := refused(c)
	a.escalate = true
	return a
}

// answers are the statuses that are no success. Sections are those of RFC 9110.
// What is not listed is not known: in doubt.
var answers = map[int]answer{
	http.StatusAccepted:    doubtful(toolexec.CodeOperationPending), // "might or might not eventually be acted upon", 15.3.3
	http.StatusMultiStatus: doubtful(toolexec.CodePartialResult),    // mixed outcomes

	// 301 and 302 are sent after processing too; 303 is an indirect answer to what was
	// done; 307 and 308 ask to repeat the same request elsewhere.
	http.StatusMovedPermanently:  doubtful(toolexec.CodeRedirected),
	http.StatusFound:             doubtful(toolexec.CodeRedirected),
	http.StatusSeeOther:          doubtful(toolexec.CodeRedirected),
	http.StatusTemporaryRedirect: refused(toolexec.CodeRedirected),
	http.StatusPermanentRedirect: refused(toolexec.CodeRedirected),

	http.StatusBadRequest:                  refused(toolexec.CodeInvalidArguments),
	http.StatusUnauthorized:                refused(toolexec.CodeAuthenticationRequired),
	http.StatusPaymentRequired:             refused(toolexec.CodePaymentRequired),
	http.StatusForbidden:                   refused(toolexec.CodePermissionDenied),
	http.StatusNotFound:                    refused(toolexec.CodeNotFound),
	http.StatusMethodNotAllowed:            refused(toolexec.CodeUnsupportedOperation),
	http.StatusNotAcceptable:               refused(toolexec.CodeInvalidArguments),
	http.StatusRequestTimeout:              doubtful(toolexec.CodeDependencyTimeout), // 15.5.9 lets one repeat it, but intermediaries emit it too
	http.StatusConflict:                    refused(toolexec.CodeConflict),
	http.StatusGone:                        refused(toolexec.CodeNotFound),
	http.StatusLengthRequired:              refused(toolexec.CodeInvalidArguments),
	http.StatusPreconditionFailed:          refused(toolexec.CodePreconditionFailed), // 15.5.13
	http.StatusRequestEntityTooLarge:       refused(toolexec.CodeInvalidArguments),
	http.StatusRequestURITooLong:           refused(toolexec.CodeInvalidArguments),
	http.StatusUnsupportedMediaType:        refused(toolexec.CodeInvalidArguments),
	http.StatusExpectationFailed:           refusedForGood(toolexec.CodeInvalidArguments),
	http.StatusMisdirectedRequest:          refused(toolexec.CodeDependencyUnavailable), // "MAY retry whether or not idempotent", 15.5.20
	http.StatusUnprocessableEntity:         refused(toolexec.CodeInvalidArguments),
	http.StatusLocked:                      refused(toolexec.CodeResourceLocked),        // RFC 4918 §11.3
	http.StatusFailedDependency:            doubtful(toolexec.CodeConflict),             // another action of the same request failed
	http.StatusTooEarly:                    refused(toolexec.CodeDependencyUnavailable), // unwilling to process what might be replayed, RFC 8470
	http.StatusUpgradeRequired:             refused(toolexec.CodeConfigError),
	http.StatusPreconditionRequired:        refused(toolexec.CodePreconditionFailed),
	http.StatusTooManyRequests:             refused(toolexec.CodeRateLimited), // a limiter runs before the operation
	http.StatusRequestHeaderFieldsTooLarge: refused(toolexec.CodeInvalidArguments),
	http.StatusUnavailableForLegalReasons:  refusedForGood(toolexec.CodePermissionDenied),
	460:                                    doubtful(toolexec.CodeOutcomeUnknown), // AWS: the client closed; the target may have run
	499:                                    doubtful(toolexec.CodeOutcomeUnknown), // nginx: the same

	http.StatusInternalServerError:           doubtful(toolexec.CodeOutcomeUnknown), // perhaps after the effect
	http.StatusNotImplemented:                refused(toolexec.CodeUnsupportedOperation),
	http.StatusBadGateway:                    doubtful(toolexec.CodeOutcomeUnknown), // a gateway speaks, not the origin
	http.StatusServiceUnavailable:            doubtful(toolexec.CodeOutcomeUnknown), // proxies make one of a reset
	http.StatusGatewayTimeout:                doubtful(toolexec.CodeOutcomeUnknown),
	http.StatusHTTPVersionNotSupported:       refused(toolexec.CodeConfigError),
	http.StatusInsufficientStorage:           doubtful(toolexec.CodeUpstreamError), // WebDAV; may be partial
	http.StatusLoopDetected:                  doubtful(toolexec.CodeUpstreamError), // the same
	http.StatusNetworkAuthenticationRequired: refused(toolexec.CodeConfigError),    // from an interceptor

	// Cloudflare's. 522 covers a connection on which the request did not finish.
	520: doubtful(toolexec.CodeOutcomeUnknown),
	521: refused(toolexec.CodeDependencyUnavailable), // the origin refused the connection
	522: doubtful(toolexec.CodeOutcomeUnknown),
	523: refused(toolexec.CodeDependencyUnavailable), // the origin is unreachable
	524: doubtful(toolexec.CodeOutcomeUnknown),
	525: refused(toolexec.CodeUpstreamError), // no TLS handshake with the origin
	526: refused(toolexec.CodeUpstreamError), // its certificate is not valid
	530: doubtful(toolexec.CodeOutcomeUnknown),
}

// lookUp returns what the status of resp means; ok is false for a success.
func (c *Checker) lookUp(resp *http.Response) (a answer, ok bool) {
	write := resp.Request == nil || unsafe(resp.Request.Method)
	switch code := resp.StatusCode; {
	case code == http.StatusPartialContent && write:
		return doubtful(toolexec.CodePartialResult), true
	case code == http.StatusSeeOther && write && c.SeeOtherIsSuccess:
		return answer{}, false
	case (code == http.StatusNotFound || code == http.StatusGone) && c.NotFoundIsEmpty:
		return refused(toolexec.CodeEmptyResult), true
	case code == http.StatusServiceUnavailable && c.UnavailableIsRefusal:
		return refused(toolexec.CodeDependencyUnavailable), true
	case code == http.StatusRequestTimeout && c.TimeoutIsRefusal:
		return refused(toolexec.CodeDependencyTimeout), true
	case code == http.StatusPreconditionFailed && resp.Request != nil && resp.Request.Header.Get("If-Match") != "":
		return refused(toolexec.CodeVersionConflict), true
	}
	if a, ok := answers[resp.StatusCode]; ok {
		return a, true
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return answer{}, false
	}
	return doubtful(toolexec.CodeToolFailed), true
}
