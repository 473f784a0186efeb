package sqltool

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/internal/canonical"
)

// Func is a tool's write. What it does with tx is committed with the row of its
// operation, or not at all; tx is committed and rolled back by this package.
// The statements take ctx, like any. An error, and a panic, roll back. See the
// package's documentation for what it must not do.
type Func[In, Out any] func(ctx context.Context, tx *sql.Tx, in In) (Out, error)

// Tool returns t with Run, Verify, MarksSent and OneRequest set, so that write runs
// at most once per operation ref and every outcome can be looked up. Verify is kept
// where t has one, but for what it leaves at zero: Lookup, Settle (none), and
// Authoritative, which is always set. It panics, naming the mend, when w cannot
// work or t has a Run of its own.
func Tool[In, Out any](w Writer, write Func[In, Out], t toolexec.Tool[In, Out]) toolexec.Tool[In, Out] {
	if t.Run != nil {
		panic(fmt.Sprintf("sqltool: Tool %q: it has a Run already; give the function to Tool, or set Run to sqltool.Run yourself", t.Name))
	}
	exclusions, err := canonical.ParseExclusions(t.IgnoreFields)
	if err != nil {
		panic(fmt.Sprintf("sqltool: Tool %q: IgnoreFields: %v", t.Name, err))
	}
	id := identity{t.Name, exclusions}
	t.Run, t.MarksSent, t.OneRequest = run(w.must(), id, write), true, true
	var v toolexec.Verifier[In, Out]
	if t.Verify != nil {
		v = *t.Verify
	}
	if v.Lookup == nil {
		v.Lookup = lookup[In, Out](w.must(), id)
	}
	if v.Settle == 0 {
		v.Settle = -1
	}
	v.Authoritative = true
	t.Verify = &v
	return t
}

// Run returns write as a Tool.Run. Declare MarksSent and OneRequest beside it, or
// every failure has to be looked up. Prefer Tool for a tool with IgnoreFields, which
// Run does not know: calls that differ in such a field would be taken for
// different ones.
func Run[In, Out any](w Writer, write Func[In, Out]) func(context.Context, In) (Out, error) {
	return run(w.must(), identity{}, write)
}

// Lookup returns the Verifier.Lookup for tools made with Run. It is
// authoritative, and needs no settle window: declare Authoritative, and Settle:
// -1.
func Lookup[In, Out any](w Writer) func(ctx context.Context, ref string, in In) (toolexec.Finding[Out], error) {
	return lookup[In, Out](w.must(), identity{})
}

func run[In, Out any](c *core, id identity, write Func[In, Out]) func(context.Context, In) (Out, error) {
	if write == nil {
		panic("sqltool: the function is nil; set it to the tool's write")
	}
	return func(ctx context.Context, in In) (out Out, err error) {
		digest, err := id.of(&in)
		if err != nil {
			return out, err
		}
		prior, err := c.write(ctx, digest, func(tx *sql.Tx) (any, error) {
			var err error
			out, err = write(ctx, tx, in)
			return &out, err
		})
		if err != nil || prior == nil {
			return out, err
		}
		return decodePrior[Out](ctx, prior)
	}
}

// decodePrior is the result of an effect that exists already. Without a result
// the fact is all there is to state.
func decodePrior[Out any](ctx context.Context, prior *row) (Out, error) {
	out, kept := decode[Out](prior)
	if kept {
		return out, nil
	}
	_ = toolexec.MarkCommitted(ctx, noResult{}) // what the store cannot be told now it is told at the end
	return out, &toolexec.Failure{Code: toolexec.CodeResultTooLarge, Evidence: toolexec.EvidenceCommitted, Err: errNotKept}
}

// decode returns the result of a row, if it keeps one that still fits.
func decode[Out any](r *row) (out Out, kept bool) {
	kept = r.hasResult && json.Unmarshal(r.result, &out) == nil
	return out, kept
}

// noResult cannot be encoded, which MarkCommitted takes for no result.
type noResult struct{}

// MarshalJSON refuses.
func (noResult) MarshalJSON() ([]byte, error) { return nil, errNotKept }

func lookup[In, Out any](c *core, id identity) func(context.Context, string, In) (toolexec.Finding[Out], error) {
	return func(ctx context.Context, ref string, in In) (toolexec.Finding[Out], error) {
		digest, err := id.of(&in)
		if err != nil {
			return toolexec.Finding[Out]{}, err
		}
		found, err := c.look(ctx, ref, digest)
		switch {
		case err != nil:
			return toolexec.Finding[Out]{}, err
		case found == nil:
			return toolexec.Absent[Out](), nil
		// The zero In may stand for arguments that were not kept. The guard compares
		// those it has by itself.
		case !bytes.Equal(found.digest, digest) && !reflect.ValueOf(&in).Elem().IsZero():
			return toolexec.Conflicting[Out](), nil
		}
		if out, kept := decode[Out](found); kept {
			return toolexec.Found(out), nil
		}
		return toolexec.FoundEffectOnly[Out](), nil
	}
}

// identity makes the digest by which a row knows its arguments: the rule of the
// guard's own fingerprint.
type identity struct {
	name       string
	exclusions canonical.Exclusions
}

// of takes a pointer to the arguments: methods of pointers count, as when they are
// decoded.
func (id identity) of(in any) ([]byte, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("sqltool: the arguments cannot be encoded: %w", err)
	}
	sum, err := canonical.Sum(id.name, raw, id.exclusions, canonical.Limits{MaxBytes: -1})
	if err != nil {
		return nil, fmt.Errorf("sqltool: the arguments: %w", err)
	}
	return sum[:], nil
}
