package main

import "github.com/toolexec/toolexec/benchmarks/internal/measure"

// target is a bound that this library sets itself, or a figure that is of
// interest beside one.
type target struct {
	id, what, beside string
	aim              *measure.Aim // nil: none
	value            func(*measure.Samples) measure.Spread
}

// over compares two paths.
func over(id, of, to string, aim *measure.Aim) target {
	return target{id, of, to, aim, func(s *measure.Samples) measure.Spread { return s.Ratio(of, to) }}
}

func atMost(bound float64) *measure.Aim { return new(measure.AtMost(bound)) }

// targets are those that can be measured with as many records as most.
func targets(most int) []target {
	list := []target{
		over("P1", pathCooperative, pathWithTimeout, atMost(0.6)),
		over("P1", pathCooperative, pathFailsafe, atMost(0.25)),
		over("P2", pathRead, pathFailsafe, atMost(0.65)),
		{"P2", pathRead, "allocations", atMost(3), func(s *measure.Samples) measure.Spread { return s.Allocs(pathRead) }},
		over("P3", pathWrite, pathFailsafe, atMost(2.5)),
		over("P4", pathReplay, pathWrite, atMost(0.5)),
		over("P5", pathTwice, pathTwiceBackoff4, atMost(0.8)),
		over("P5", pathTwice, pathTwiceFailsafe, nil),
		over("P6", pathByName, pathMCP, atMost(0.1)),
		over("P6", pathByName, pathPlainJSON, atMost(4)),
	}
	for _, n := range goroutines[1:] {
		list = append(list, over("P7", goroutinesName(n), goroutinesName(1), atMost(1)))
	}
	full := records(most)
	last := recordsName(full[len(full)-1])
	return append(list,
		over("P8", last, recordsName(0), atMost(1.3)),
		target{"P8", last, "bytes of heap a record", atMost(400), func(s *measure.Samples) measure.Spread { return s.Extra(last, heapPerRecord) }},
	)
}
