package toolexec_test

import (
	"context"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/toolexec/toolexec"
)

// The methods of a pointer count also for a value that is passed as such: what they make of it is its identity, and what is kept
// of it. By itself package json calls none of them on what it cannot address, and a big.Int is {} then.
func TestPointerMethodsOfValues(t *testing.T) {
	type amount struct {
		Cents big.Int `json:"cents"`
	}
	type loose struct { // with a member that no schema describes
		Cents big.Int `json:"cents"`
		Extra any     `json:"extra"`
	}
	type receipt struct {
		Balance big.Int `json:"balance"`
	}
	var x toolexec.Executor
	plain := toolexec.Bind(&x, toolexec.Tool[amount, receipt]{Name: "plain", Run: func(_ context.Context, in amount) (receipt, error) {
		return receipt{Balance: in.Cents}, nil
	}})
	other := toolexec.Bind(&x, toolexec.Tool[loose, receipt]{Name: "loose", Run: func(_ context.Context, in loose) (receipt, error) {
		return receipt{Balance: in.Cents}, nil
	}})
	ctx := toolexec.WithOperationRef(t.Context(), "op-1")
	first := plain.Call(ctx, amount{*big.NewInt(7)})
	again := plain.Call(ctx, amount{*big.NewInt(7)})
	assert.True(t, again.Replayed)
	assert.Equal(t, int64(7), first.Result.Balance.Int64())
	assert.Equal(t, int64(7), again.Result.Balance.Int64(), "from the record")
	assert.Equal(t, toolexec.CodeOperationRefReused, plain.Call(ctx, amount{*big.NewInt(9)}).Code, "another amount is another operation")

	wire, err := first.AppendJSON(nil)
	assert.NoError(t, err)
	assert.Contains(t, string(wire), `"result":{"balance":7}`)

	ctx = toolexec.WithOperationRef(t.Context(), "op-2")
	assert.True(t, other.Call(ctx, loose{Cents: *big.NewInt(7)}).OK)
	assert.Equal(t, toolexec.CodeOperationRefReused, other.Call(ctx, loose{Cents: *big.NewInt(9)}).Code)
}
