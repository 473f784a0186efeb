package canonical_test

import (
	"testing"

	"github.com/toolexec/toolexec/internal/canonical"
)

// 300 bytes, in the order and form encoding/json gives a struct.
const benchArgs = `{"order_id":"ORD-5510","customer":{"id":9007199254740993,"name":"Ada Lovelace","email":"ada@example.org"},` +
	`"lines":[{"sku":"A-1","qty":2,"cents":1250},{"sku":"B-22","qty":1,"cents":5500}],"reason":"arrived broken \u0026 late",` +
	`"cents":8000,"rate":0.0825,"express":true,"note":null,"tags":["refund","vip"]}`

func BenchmarkSum(b *testing.B) {
	excluding, err := canonical.ParseExclusions([]string{"/note", "/customer/email"})
	if err != nil {
		b.Fatal(err)
	}
	for name, ex := range map[string]canonical.Exclusions{"all": {}, "excluding": excluding} {
		b.Run(name, func(b *testing.B) {
			args := []byte(benchArgs)
			b.ReportAllocs()
			b.SetBytes(int64(len(args)))
			for b.Loop() {
				if _, err := canonical.Sum("process_refund", args, ex, canonical.Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	args, dst := []byte(benchArgs), make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := canonical.Append(dst, args, canonical.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	args := []byte(benchArgs)
	b.ReportAllocs()
	for b.Loop() {
		if err := canonical.Check(args, canonical.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAt(b *testing.B) {
	args := []byte(benchArgs)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := canonical.At(args, "/lines/1/cents"); !ok {
			b.Fatal("absent")
		}
	}
}
