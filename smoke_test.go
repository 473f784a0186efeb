package toolexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolexec/toolexec"
)

type in struct {
	OrderID string `json:"order_id"`
	Cents   int    `json:"cents"`
}
type out struct {
	Receipt string `json:"receipt"`
}

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolexec.Executor
		n := 0
		w := toolexec.Bind(&x, toolexec.Tool[in, out]{Name: "refund", Run: func(ctx context.Context, i in) (out, error) {
			n++
			switch i.Cents {
			case 1:
				return out{}, context.DeadlineExceeded
			case 2:
				time.Sleep(3 * time.Second)
			case 3:
				panic("x")
			case 4:
				return out{}, toolexec.NotSent(errors.New("z"))
			}
			return out{fmt.Sprint("r", n)}, nil
		}})
		show := func(v any) { b, err := json.Marshal(v); t.Log(string(b), err) }
		ctx := toolexec.WithOperationRef(t.Context(), "a/1")
		show(w.Call(ctx, in{"o", 9}))
		show(w.Call(ctx, in{"o", 9}))
		show(w.Call(ctx, in{"o", 8}))
		for i := 1; i < 5; i++ {
			st := time.Now()
			e := w.Call(t.Context(), in{"o", i})
			show(e)
			t.Log(time.Since(st))
			show(w.Call(t.Context(), in{"o", i}))
		}
		show(x.Execute(t.Context(), toolexec.Call{Name: "refund", Arguments: json.RawMessage(`{"order_id":"z","cents":1.0}`)}))
		show(x.Execute(t.Context(), toolexec.Call{Name: "refund", Arguments: json.RawMessage(`{"order_id":"z","cents":"q", "z":1}`)}))
		show(x.Execute(t.Context(), toolexec.Call{Name: "refnd"}))
		t.Log(x.Close(t.Context()))
	})
}
