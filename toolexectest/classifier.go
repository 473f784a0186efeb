package toolexectest

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolexec/toolexec"
)

// CheckClassifier checks what is true of every [toolexec.Classifier]: it always
// answers, always the same, never from an error's text, with words that the
// contract has, and it never takes for a proof what proves nothing. errs are errors
// of the kind it is for; beside them it is asked about those that any tool meets.
// It returns nil, or one error that joins the laws that are broken, each named in
// words.
func CheckClassifier(c toolexec.Classifier, errs ...error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	var broken []error
	for _, law := range classifierLaws {
		if err := law.check(c, errs); err != nil {
			broken = append(broken, fmt.Errorf("broken law: %s: %w", law.words, err))
		}
	}
	return errors.Join(broken...)
}

// RunClassifier is CheckClassifier with a subtest for each law.
func RunClassifier(t *testing.T, c toolexec.Classifier, errs ...error) {
	t.Helper()
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	for _, law := range classifierLaws {
		t.Run(law.words, func(t *testing.T) {
			if err := law.check(c, errs); err != nil {
				t.Error(err)
			}
		})
	}
}

type classifierLaw struct {
	words string
	check func(c toolexec.Classifier, errs []error) error
}

var classifierLaws = []classifierLaw{
	{"it answers about every error, without a panic", checkTotal},
	{"it says the same of the same error", checkDeterministic},
	{"it takes for a proof only what proves something", checkProof},
	{"it does not judge by the text of an error", checkText},
	{"what it says has words of the contract", checkWords},
	{"what it says keeps the error as its cause", checkCause},
	{"it can be asked concurrently", checkConcurrency},
}

// strangeError is an error that no classifier knows, of a form that few expect.
type strangeError struct {
	text  string
	inner error
}

func (e *strangeError) Error() string {
	if e == nil {
		return ""
	}
	return e.text
}

func (e *strangeError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.inner
}

// listError cannot be compared: a classifier that writes err == X is fine, and one
// that makes it the key of a map is not.
type listError []string

func (e listError) Error() string { return fmt.Sprint([]string(e)) }

// inDoubt are errors that any tool meets and that prove nothing about what was
// done.
func inDoubt() []error {
	return []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded, net.ErrClosed,
		&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE},
		&url.Error{Op: "Post", URL: "https://example.com", Err: io.EOF}, driver.ErrBadConn,
		errors.Join(errors.New("declined"), io.EOF), syscall.ETIMEDOUT, errors.New("boom"),
		&strangeError{text: "not sent"}, &strangeError{text: "rejected: nothing changed"},
	}
}

// strange are errors of forms that few expect.
func strange() []error {
	var none *strangeError
	return []error{
		none, &strangeError{}, listError{"a"}, fmt.Errorf("wrapped: %w", io.EOF), errors.Join(io.EOF, os.ErrNotExist),
		&fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}, toolexec.ErrNotSent, &toolexec.Error{}, &toolexec.Failure{},
	}
}

func probes(errs []error) []error { return slices.Concat(errs, inDoubt(), strange()) }

// verdict is one answer of a classifier.
type verdict struct {
	failure  toolexec.Failure
	ok       bool
	panicked any
}

func judge(c toolexec.Classifier, err error) (v verdict) {
	defer func() { v.panicked = recover() }()
	v.failure, v.ok = c(err)
	return v
}

// show names an error by its type, and its text where that is safe to ask for.
func show(err error) string {
	if v := reflect.ValueOf(err); v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Sprintf("a nil %T", err)
	}
	return fmt.Sprintf("the %T %q", err, err.Error())
}

func checkTotal(c toolexec.Classifier, errs []error) error {
	return each(probes(errs), func(err error) error {
		if v := judge(c, err); v.panicked != nil {
			return fmt.Errorf("it panics on %s: %v", show(err), v.panicked)
		}
		return nil
	})
}

// each joins what is found about each error.
func each(errs []error, check func(error) error) error {
	var found []error
	for _, err := range errs {
		found = append(found, check(err))
	}
	return errors.Join(found...)
}

func checkDeterministic(c toolexec.Classifier, errs []error) error {
	return each(probes(errs), func(err error) error {
		first := judge(c, err)
		for range 10 {
			if v := judge(c, err); !sameVerdict(v, first) {
				return fmt.Errorf("of %s it says %s, and then %s", show(err), first, v)
			}
		}
		return nil
	})
}

// sameVerdict compares what was said. Panics are another law's business.
func sameVerdict(a, b verdict) bool {
	return a.ok == b.ok && a.String() == b.String() && reflect.DeepEqual(a.failure.Details, b.failure.Details) &&
		reflect.DeepEqual(a.failure.Fields, b.failure.Fields)
}

func (v verdict) String() string {
	f := &v.failure
	switch {
	case v.panicked != nil:
		return "nothing"
	case !v.ok:
		return "that it does not know"
	}
	s := fmt.Sprintf("%s, class %s, category %s, %s", orNone(string(f.Code)), f.Class, f.Category, f.Evidence)
	if f.RetryAfter != 0 {
		s += ", retry after " + f.RetryAfter.String()
	}
	if f.Next != nil {
		s += ", " + f.Next.String()
	}
	return s
}

func checkProof(c toolexec.Classifier, _ []error) error {
	return each(inDoubt(), func(err error) error {
		v := judge(c, err)
		if v.ok && (v.failure.Evidence == toolexec.EvidenceNotSent || v.failure.Evidence == toolexec.EvidenceRejected) {
			return fmt.Errorf("it says %s of %s, which may have come after the effect", v.failure.Evidence, show(err))
		}
		if v.ok && v.failure.Evidence == toolexec.EvidenceCommitted {
			return fmt.Errorf("it says committed of %s, which does not prove an effect", show(err))
		}
		return nil
	})
}

func checkText(c toolexec.Classifier, errs []error) error {
	return each(errs, func(err error) error {
		v := judge(c, err)
		twin := &strangeError{text: err.Error()}
		if v.ok && judge(c, twin).ok {
			return fmt.Errorf("it knows %s, and every other error with that text", show(err))
		}
		return nil
	})
}

var (
	codeForm   = regexp.MustCompile(toolexec.CodePattern)
	detailForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)
)

func checkWords(c toolexec.Classifier, errs []error) error {
	return each(probes(errs), func(err error) error {
		v := judge(c, err)
		if !v.ok || v.panicked != nil {
			return nil
		}
		if wrong := wrongWords(&v.failure); wrong != "" {
			return fmt.Errorf("of %s it says %s", show(err), wrong)
		}
		return nil
	})
}

// wrongWords says which word of f the contract does not have.
func wrongWords(f *toolexec.Failure) string {
	switch {
	case f.Code != "" && !codeForm.MatchString(string(f.Code)):
		return fmt.Sprintf("the code %q, which does not match %s", f.Code, toolexec.CodePattern)
	case f.Code == toolexec.CodeOK:
		return "the code OK, which is no failure's"
	case f.Class != f.Class.Safe():
		return fmt.Sprintf("the class %q, which there is not", string(f.Class))
	case f.Category != f.Category.Safe():
		return fmt.Sprintf("the category %q, which there is not", string(f.Category))
	case f.Evidence > toolexec.EvidenceCommitted:
		return fmt.Sprintf("evidence %d, which there is not", f.Evidence)
	case f.RetryAfter < 0 || f.RetryAfter > 24*time.Hour:
		return fmt.Sprintf("a retry after %v: it has to be between 0 and a day", f.RetryAfter)
	case f.Next != nil && *f.Next != f.Next.Safe():
		return fmt.Sprintf("the next action %q, which there is not", string(*f.Next))
	case f.Next != nil && *f.Next == toolexec.NextContinue:
		return "the next action continue, which goes with a success alone"
	}
	for k, v := range inOrder(f.Details) {
		if !detailForm.MatchString(k) || !isScalar(v) {
			return fmt.Sprintf("a detail %q of type %T: a key matches %s, and a value is a text, a number or a bool", k, v, detailForm)
		}
	}
	return ""
}

func isScalar(v any) bool {
	switch r := reflect.ValueOf(v); r.Kind() { //nolint:exhaustive // the others are no scalars
	case reflect.String, reflect.Bool:
		return true
	case reflect.Float32, reflect.Float64:
		return !math.IsNaN(r.Float()) && !math.IsInf(r.Float(), 0)
	default:
		return r.CanInt() || r.CanUint()
	}
}

func checkCause(c toolexec.Classifier, errs []error) error {
	return each(probes(errs), func(err error) error {
		v := judge(c, err)
		if v.ok && v.failure.Err != nil && !wraps(v.failure.Err, err) {
			return fmt.Errorf("of %s it keeps %s as the cause, which does not wrap it; leave Err nil, or wrap it", show(err), show(v.failure.Err))
		}
		return nil
	})
}

// wraps is errors.Is by identity, also for errors that cannot be compared.
func wraps(outer, inner error) bool {
	if reflect.DeepEqual(outer, inner) { //nolint:govet // deepequalerrors: identity is meant, and == panics on some
		return true
	}
	switch u := outer.(type) { //nolint:errorlint // the tree is walked node by node
	case interface{ Unwrap() error }:
		next := u.Unwrap()
		return next != nil && wraps(next, inner)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(u.Unwrap(), func(e error) bool { return e != nil && wraps(e, inner) })
	}
	return false
}

// checkConcurrency asks from several goroutines at once; the race detector sees
// what the answers do not show.
func checkConcurrency(c toolexec.Classifier, errs []error) error {
	all := probes(errs)
	alone := make([]verdict, len(all))
	for i, err := range all {
		alone[i] = judge(c, err)
	}
	const workers = 8
	found := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for range 50 {
				for i, err := range all {
					if v := judge(c, err); !sameVerdict(v, alone[i]) {
						found[w] = fmt.Errorf("of %s it says %s, and %s when it is asked alone", show(err), v, alone[i])
					}
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(found...)
}
