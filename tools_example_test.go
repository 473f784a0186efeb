package toolexec_test

import (
	"context"
	"fmt"

	"github.com/toolexec/toolexec"
)

// One list serves every provider: an adapter puts each tool into its own shape.
// Pass the names that a caller may use to Tools and to its calls alike.
func ExampleExecutor_Tools() {
	var x toolexec.Executor
	run := func(context.Context, Refund) (Receipt, error) { return Receipt{ID: "rcpt_1"}, nil }
	toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{Name: "refund", Description: "Refund an order once.", Run: run})
	toolexec.Bind(&x, toolexec.Tool[Refund, Receipt]{Name: "find_refund", Effect: toolexec.ReadOnly, Run: run})
	toolexec.Bind(&x, toolexec.Tool[struct{}, Receipt]{Name: "close_shop", Run: func(context.Context, struct{}) (Receipt, error) { return Receipt{}, nil }})

	allowed := []string{"refund", "find_refund"}
	for _, t := range x.Tools(allowed...) {
		fmt.Println(t.Name, t.Effect, "destructive:", t.Destructive)
		fmt.Println(string(t.InputSchema))
	}
	// Output:
	// find_refund read_only destructive: false
	// {"type":"object","properties":{"order_id":{"type":"string"},"cents":{"type":"integer"}},"required":["order_id","cents"],"additionalProperties":false}
	// refund write destructive: true
	// {"type":"object","properties":{"order_id":{"type":"string"},"cents":{"type":"integer"}},"required":["order_id","cents"],"additionalProperties":false}
}
