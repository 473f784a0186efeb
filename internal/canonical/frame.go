package canonical

import "sync"

// frame is the memory of a scan of usual size: without it a scan grows three slices, and without the pool the frame is most of
// what a call of a guarded tool allocates, since what a scanner appends to is never on the stack.
//
// A scan ends before the function that borrowed the frame returns, and nothing that the package returns is part of a frame. A
// frame is cleared before anybody else gets it: arguments can be secrets. What outgrows a frame is the garbage collector's.
type frame struct {
	out     [768]byte
	members [16]member
	scratch [64]byte
}

var frames = sync.Pool{New: func() any { return new(frame) }}

func borrow() *frame { return frames.Get().(*frame) } //nolint:forcetypeassert // New makes no other

// release clears f and gives it back; clearing takes a tenth of what allocating does.
func (f *frame) release() {
	*f = frame{}
	frames.Put(f)
}

// scanner returns a scanner of src that writes into f. The limits are yet to be set.
func (f *frame) scanner(src []byte) scanner {
	return scanner{src: src, out: f.out[:0], members: f.members[:0], scratch: f.scratch[:0]}
}
