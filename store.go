package toolexec

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Store keeps the guard's records, one per Key. All logic is in the guard; a
// store only has to be atomic. Implementations must be safe for concurrent use
// and must pass toolexectest.RunStore.
//
// Errors: ErrNotFound from Load, ErrConflict from Save, ErrStoreFull from a
// Save that would create a record, anything else when the store does not know
// whether it did what was asked.
type Store interface {
	// Load returns the record of key, with Now set, or ErrNotFound.
	Load(ctx context.Context, key Key) (Record, error)

	// Save is a compare-and-swap on r.Version: it stores r as Version+1 if the
	// stored record has r.Version (0: no record may exist), and returns what it
	// stored: every relative Instant resolved by the store's clock, Now set. On a
	// mismatch it changes nothing and returns the stored record with ErrConflict
	// (the zero Record when there is none), so that a replay or a lost race costs
	// one round trip. A nil Arguments or Result leaves the stored one as it is,
	// and need not come back. RetainUntil is the store's own business, and it may
	// drop the Arguments of a committed operation, which never runs again.
	Save(ctx context.Context, r Record) (Record, error)

	// List returns records that match q in the order of their keys, a page at a
	// time; the zero Cursor ends the listing, and a page before it may be short.
	// Bodies may be left out. (An open
	// cursor instead of pages would deadlock a pool of one connection.)
	List(ctx context.Context, q Query) (page []Record, next Cursor, err error)
}

// Waiter is an optional ability of a Store: to notify of a change instead of
// being polled, every 10 to 250 ms.
type Waiter interface {
	// Wait returns when the record of key has another version than version, or
	// ctx is done. It may return early.
	Wait(ctx context.Context, key Key, version int64) error
}

// Volatile is an optional ability of a Store: a store that dies with its
// process needs no leases, since owner and record die together. On any other
// store an owner holds an operation for its total deadline and 5 s, an hour at
// most (15 s without a total deadline), and extends that while it lives.
type Volatile interface {
	// Volatile reports whether records vanish with this process.
	Volatile() bool
}

// Claimer is an optional ability of a Store that several supervisors share: to
// give each due record to one of them at a time. A claim saves work and nothing
// else: what may be done with a record is decided by compare-and-swap.
type Claimer interface {
	// Claim returns at most q.PageSize records that match q and that nobody has
	// claimed, bodies left out, and claims them for d. A Save of a record ends its
	// claim. q.After is not used: what is claimed is not returned again.
	Claim(ctx context.Context, q Query, d time.Duration) ([]Record, error)
}

// Pruner is an optional ability of a Store: to delete what retention allows.
// Supervisor.Run asks for it after each pass; without a supervisor the program
// must.
// It never deletes a fact early, nor an operation in flight, unknown or
// escalated.
type Pruner interface {
	// Prune deletes at most limit records, dropping expired results first, and
	// returns how many records it deleted.
	Prune(ctx context.Context, limit int) (int, error)
}

// Stats counts records by state; an optional ability of a Store.
type Stats interface {
	Stats(ctx context.Context) (map[State]int, error)
}

// What a Store answers.
var (
	ErrNotFound  = errors.New("toolexec: no such record")
	ErrConflict  = errors.New("toolexec: the record has another version")
	ErrStoreFull = errors.New("toolexec: the store is at its bound and forgets no fact early")
)

// Key names a record. Scope is the tenant or principal that the host gives,
// empty by default; Ref is the operation ref. Both are compared bytewise.
type Key struct {
	Scope string `json:"scope,omitempty"`
	Ref   string `json:"ref"`
}

// Compare orders keys bytewise, scope first.
func (k Key) Compare(o Key) int {
	if c := strings.Compare(k.Scope, o.Scope); c != 0 {
		return c
	}
	return strings.Compare(k.Ref, o.Ref)
}

// Fingerprint is the identity of a call's arguments: the version of the rule
// that made it, and SHA-256 over tool name and canonical arguments. The zero
// value is no fingerprint. Fingerprints of different rules are never equal.
type Fingerprint struct {
	Rule uint8
	Sum  [32]byte
}

// String returns the rule and the sum in hex: "1:9f86…".
func (f Fingerprint) String() string {
	return strconv.Itoa(int(f.Rule)) + ":" + hex.EncodeToString(f.Sum[:])
}

// MarshalText implements encoding.TextMarshaler.
func (f Fingerprint) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Fingerprint) UnmarshalText(b []byte) error {
	rule, sum, ok := bytes.Cut(b, []byte(":"))
	n, err := strconv.ParseUint(string(rule), 10, 8)
	if !ok || err != nil || len(sum) != 2*len(f.Sum) {
		return errors.New("toolexec: a fingerprint is <rule>:<64 hex digits>")
	}
	var out Fingerprint
	if _, err := hex.Decode(out.Sum[:], sum); err != nil {
		return errors.New("toolexec: a fingerprint is <rule>:<64 hex digits>")
	}
	out.Rule = uint8(n)
	*f = out
	return nil
}

// Instant is a moment on the store's clock. When a record is saved it may be
// relative ("in 5 s"), because the writer has no reading of that clock; the
// stored record comes back with absolute ones. The zero Instant is none.
type Instant struct {
	at time.Time
	// offset is that of a relative moment, and one more where it is not negative,
	// so that 0 is no relative moment. A record has eight of them, and a flag each
	// would be 64 bytes of it.
	offset time.Duration
}

// In is the moment d after the Save that carries it.
func In(d time.Duration) Instant {
	if d < 0 {
		return Instant{offset: d}
	}
	return Instant{offset: min(d, math.MaxInt64-1) + 1}
}

// in is what In was given, of a relative moment.
func (i Instant) in() (d time.Duration, relative bool) {
	if i.offset > 0 {
		return i.offset - 1, true
	}
	return i.offset, i.offset != 0
}

// At is an absolute moment on the store's clock; the zero time is none.
func At(t time.Time) Instant { return Instant{at: t} }

// IsZero reports whether there is no moment.
func (i Instant) IsZero() bool { return i.offset == 0 && i.at.IsZero() }

// String returns the moment as RFC 3339, "in 5s" for a relative one, "none".
func (i Instant) String() string {
	d, relative := i.in()
	switch {
	case relative:
		return "in " + d.String()
	case i.at.IsZero():
		return "none"
	}
	return i.at.UTC().Format(time.RFC3339Nano)
}

// Time returns the absolute moment; the zero time for none and for a relative
// one.
func (i Instant) Time() time.Time { return i.at }

// Resolve returns the absolute moment, given the store's clock.
func (i Instant) Resolve(now time.Time) Instant {
	if d, relative := i.in(); relative {
		return At(now.Add(d))
	}
	return i
}

func (i *Instant) resolve(now time.Time) {
	if i.offset != 0 {
		*i = i.Resolve(now)
	}
}

// MarshalJSON encodes an absolute moment as RFC 3339 and none as null. A
// relative one is refused: it means nothing once it is stored.
func (i Instant) MarshalJSON() ([]byte, error) {
	switch {
	case i.offset != 0:
		return nil, errors.New("toolexec: a relative Instant must be resolved before it is encoded")
	case i.at.IsZero():
		return []byte("null"), nil
	}
	return json.Marshal(i.at.UTC())
}

// UnmarshalJSON implements json.Unmarshaler.
func (i *Instant) UnmarshalJSON(b []byte) error {
	var t *time.Time
	if err := json.Unmarshal(b, &t); err != nil {
		return fmt.Errorf("toolexec: an Instant: %w", err)
	}
	*i = At(deref(t))
	return nil
}

// Unresolved is an attempt whose outcome is not known: it was sent, or may
// still be, and nothing proves what came of it.
type Unresolved struct {
	// Attempt is "<nonce>/<n>" for attempt n of an ownership, or "<nonce>" for
	// all the attempts of an owner that was lost.
	Attempt string `json:"attempt"`
	// Alive: the attempt still runs, so it can still send.
	Alive bool `json:"alive,omitempty"`
	// Settles is when it can have no effect any more that a look-up would not
	// show: the latest moment it could send, plus the tool's Settle. None while
	// Alive means that it is not known yet: the window is open.
	Settles Instant `json:"settles,omitzero"`
}

// FieldDigest names an argument and the digest of its value at the time it was
// rejected.
type FieldDigest struct {
	Pointer string `json:"pointer"`
	Digest  string `json:"digest"`
}

// FailureRecord is the last failure of an operation.
type FailureRecord struct {
	Code         Code     `json:"code"`
	Class        Class    `json:"class"`
	Category     Category `json:"category"`
	AgentMessage string   `json:"agent_message,omitempty"` // written by the tool's author
	UserMessage  string   `json:"user_message,omitempty"`
	Details      Details  `json:"details,omitempty"` // safe scalars
}

// ApprovalRecord is the decision on an operation that needs one.
type ApprovalRecord struct {
	// Digest binds the decision to all arguments, also those that the
	// fingerprint leaves out.
	Digest   string  `json:"digest"`
	Decision string  `json:"decision,omitempty"` // "", "approved" or "denied"
	Actor    string  `json:"actor,omitempty"`
	Reason   string  `json:"reason,omitempty"`
	Summary  string  `json:"summary,omitempty"` // what the reviewer sees
	Expires  Instant `json:"expires,omitzero"`
	Spent    bool    `json:"spent,omitempty"`
	SpentBy  string  `json:"spent_by,omitempty"` // the ownership whose dispatch spent it
}

// expired reports whether the time for a decision, or to use it, is over.
func (a *ApprovalRecord) expired(now time.Time) bool {
	return !a.Expires.IsZero() && !a.Expires.Time().After(now)
}

// HistoryEntry is one step of an operation that did not succeed at once.
type HistoryEntry struct {
	At    Instant `json:"at,omitzero"`
	State State   `json:"state"`
	Event string  `json:"event"`
	Actor string  `json:"actor,omitempty"`
	Note  string  `json:"note,omitempty"`
}

// maxHistory bounds Record.History; the oldest entries after the first go.
const maxHistory = 32

// Record is what is known about one operation. Only the guard decides what it
// says; a store keeps it as it is.
type Record struct {
	Key
	// Alias is a ref that a caller gave beside the tool's own business key.
	Alias       string          `json:"alias,omitempty"`
	Tool        string          `json:"tool"`
	Effect      Effect          `json:"effect"`
	Fingerprint Fingerprint     `json:"fingerprint"`
	Arguments   json.RawMessage `json:"arguments,omitempty"` // canonical, or sealed by the tool
	State       State           `json:"state"`
	Version     int64           `json:"version"`

	// Owner names the process, Nonce the ownership: one per begin.
	Owner string `json:"owner,omitempty"`
	Nonce string `json:"nonce,omitempty"`
	// Sent: the owner marked that it is about to send.
	Sent bool `json:"sent,omitempty"`
	// MarksSent: the owner's tool sends nothing before it has marked.
	MarksSent bool `json:"marks_sent,omitempty"`
	// LeaseUntil: after it the owner is taken for lost. None means held.
	LeaseUntil Instant `json:"lease_until,omitzero"`

	NotBefore   Instant      `json:"not_before,omitzero"`
	Attempts    int          `json:"attempts,omitempty"` // dispatches, for life
	Unresolved  []Unresolved `json:"unresolved_attempts,omitempty"`
	NextCheckAt Instant      `json:"next_check_at,omitzero"`
	Checks      int          `json:"checks,omitempty"`
	Corrections int          `json:"corrections,omitempty"`
	// RejectedFields: at least one of them must change before a rejected
	// operation runs again; any field, when there is none.
	RejectedFields []FieldDigest   `json:"rejected_fields,omitempty"`
	LastFailure    *FailureRecord  `json:"last_failure,omitempty"`
	Verification   *Verification   `json:"verification,omitempty"`
	Approval       *ApprovalRecord `json:"approval,omitempty"`

	// Result is meaningful when ResultPresent; null, 0, false, "" and [] are
	// results. ResultDigest stands for one that was not kept.
	Result        json.RawMessage `json:"result,omitempty"`
	ResultPresent bool            `json:"result_present,omitempty"`
	ResultDigest  string          `json:"result_digest,omitempty"`
	// CommittedBy is the attempt whose own success committed the operation; ""
	// when a look-up or a person did. Another attempt's success is a duplicate.
	CommittedBy string `json:"committed_by,omitempty"`
	// Unheard: it is committed, and no caller was told so yet. A call without a
	// ref that repeats it is given this commit instead of making another.
	Unheard bool `json:"unheard,omitempty"`

	UnknownSince Instant        `json:"unknown_since,omitzero"`
	SettledAt    Instant        `json:"settled_at,omitzero"`
	RunID        string         `json:"run,omitempty"`
	History      []HistoryEntry `json:"history,omitempty"`
	CreatedAt    Instant        `json:"created_at,omitzero"`
	UpdatedAt    Instant        `json:"updated_at,omitzero"`
	// RetainUntil is the store's: when a fact or a closed record may be deleted.
	RetainUntil Instant `json:"retain_until,omitzero"`

	// Now is the store's clock at the Load, Save or List that returned the
	// record. It is not stored.
	Now time.Time `json:"-"`
}

// Resolve makes every relative Instant of r absolute, sets UpdatedAt, Now, and
// CreatedAt when there is none. A Store calls it with its own clock in Save,
// on a record of its own (see Clone).
func (r *Record) Resolve(now time.Time) {
	r.LeaseUntil.resolve(now)
	r.NotBefore.resolve(now)
	r.NextCheckAt.resolve(now)
	r.UnknownSince.resolve(now)
	r.SettledAt.resolve(now)
	r.RetainUntil.resolve(now)
	for i := range r.Unresolved {
		r.Unresolved[i].Settles = r.Unresolved[i].Settles.Resolve(now)
	}
	for i := range r.History {
		r.History[i].At = r.History[i].At.Resolve(now)
	}
	if r.Approval != nil {
		r.Approval.Expires = r.Approval.Expires.Resolve(now)
	}
	if r.CreatedAt = r.CreatedAt.Resolve(now); r.CreatedAt.IsZero() {
		r.CreatedAt = At(now)
	}
	r.UpdatedAt, r.Now = At(now), now
}

// Clone returns a copy of r that shares nothing with it.
func (r Record) Clone() Record {
	r.Arguments = bytes.Clone(r.Arguments)
	r.Result = bytes.Clone(r.Result)
	r.detach()
	return r
}

// cloneHead is Clone but for the bodies, which nobody writes in place.
func (r Record) cloneHead() Record {
	r.detach()
	return r
}

// draft is a copy of r that can be changed and saved: without bodies a Save
// leaves the stored ones as they are.
func (r *Record) draft() *Record {
	d := *r
	d.detach()
	d.Arguments, d.Result = nil, nil
	return &d
}

// detach makes what r points to its own, but for the bodies.
func (r *Record) detach() {
	r.Unresolved = slices.Clone(r.Unresolved)
	r.RejectedFields = slices.Clone(r.RejectedFields)
	r.History = slices.Clone(r.History)
	if r.LastFailure = clonePtr(r.LastFailure); r.LastFailure != nil {
		r.LastFailure.Details = maps.Clone(r.LastFailure.Details)
	}
	r.Verification = clonePtr(r.Verification)
	r.Approval = clonePtr(r.Approval)
}

func clonePtr[V any](p *V) *V {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// Query selects records. Zero fields select all; the others are combined by
// and.
type Query struct {
	States []State
	// Open selects what a call without a ref continues instead of starting
	// anew; see Record.IsOpen.
	Open        bool
	Tool        string
	Scope       *string // nil: every scope
	Alias       string
	Fingerprint Fingerprint
	// DueBefore selects records that want attention before this moment, which may
	// be relative: In(0) is now on the store's clock. See Record.DueAt.
	DueBefore Instant
	After     Cursor
	Limit     int // 0: 100; at most 1000
}

// Cursor is a place in a listing; the zero value is its beginning, and its end.
type Cursor struct{ Key Key }

// Matches reports whether r is selected by q, its cursor and limit apart.
// Stores that cannot ask their database use it.
func (q Query) Matches(r *Record) bool {
	switch {
	case len(q.States) > 0 && !slices.Contains(q.States, r.State),
		q.Open && !r.IsOpen(),
		q.Tool != "" && q.Tool != r.Tool,
		q.Scope != nil && *q.Scope != r.Scope,
		q.Alias != "" && q.Alias != r.Alias,
		q.Fingerprint != Fingerprint{} && q.Fingerprint != r.Fingerprint:
		return false
	}
	return q.DueBefore.IsZero() || r.dueBefore(q.DueBefore.Time())
}

// Resolve makes a relative DueBefore absolute. A Store calls it with its own
// clock before it compares.
func (q *Query) Resolve(now time.Time) { q.DueBefore = q.DueBefore.Resolve(now) }

// IsOpen reports whether the operation is not over for its callers: it is in
// flight, unknown, awaiting approval, escalated, or committed without anybody
// having been told.
func (r *Record) IsOpen() bool {
	switch r.State {
	case StateAbsent, StateReleased, StateRejected:
		return false
	case StateCommitted:
		return r.Unheard
	}
	return true
}

// DueAt is when an operation wants attention without being called, on the
// store's clock: the end of the lease of one in flight, the next check of an
// unknown one and not before its NotBefore, the NotBefore of a released one that is worth repeating, at once
// for one that is approved. None for all others. r must be resolved, as a stored
// record is; a store keeps the answer beside the record to find what is due.
func (r *Record) DueAt() Instant {
	switch r.State {
	case StateInFlight:
		return r.LeaseUntil
	case StateUnknown:
		return firstInstant(later(r.NextCheckAt, r.NotBefore), r.UpdatedAt)
	case StateReleased:
		if r.worthRepeating() {
			return firstInstant(r.NotBefore, r.UpdatedAt)
		}
	case StateAwaitingApproval:
		if a := r.Approval; a != nil && a.Decision == decisionApproved && !a.Spent {
			return r.UpdatedAt
		}
	}
	return Instant{}
}

// worthRepeating: it was given back for a reason that may pass, or by a person.
func (r *Record) worthRepeating() bool {
	return r.LastFailure == nil || r.LastFailure.Class == ClassTransient || r.heardPerson()
}

// later is the later of two absolute moments.
func later(a, b Instant) Instant {
	if b.Time().After(a.Time()) {
		return b
	}
	return a
}

func firstInstant(a, b Instant) Instant {
	if a.IsZero() {
		return b
	}
	return a
}

func (r *Record) dueBefore(t time.Time) bool {
	due := r.DueAt()
	return !due.IsZero() && due.Time().Before(t)
}

// PageSize returns how many records one page of q holds.
func (q Query) PageSize() int {
	if q.Limit <= 0 {
		return 100
	}
	return min(q.Limit, 1000)
}
