// Command agentloop puts an executor between a model that makes every kind of
// mistake and a shop whose gateway fails in every way, and shows what the model
// reads beside what the host decides: go run ./examples/agentloop
//
// host.go and agenda.go are a loop to start your own from; shop.go declares the
// tools. The rest plays the model, the people and the remote services.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"time"

	"github.com/toolexec/toolexec"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program; it returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	complain := log.New(stderr, "", 0)
	flags := flag.NewFlagSet("agentloop", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		complain.Print("usage: agentloop [-seed N] [-real]")
		flags.PrintDefaults()
	}
	seed := flags.Uint64("seed", 1, "draw the mistakes and the faults from seed `N`")
	full := flags.Bool("real", false, "run at full length (some minutes) instead of 20 times faster")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil: // flags has said what is wrong
		return 2
	case flags.NArg() > 0:
		complain.Printf("agentloop takes no arguments, only flags: %q", flags.Args())
		flags.Usage()
		return 2
	}
	p := pace(20)
	if *full {
		p = 1
	}
	w := newWorld(*seed, p, stdout)
	if err := w.play(ctx); err != nil {
		complain.Print("agentloop: ", err)
		return 1
	}
	return 0
}

// world is a shop, a model, and the host between them.
type world struct {
	seed     uint64
	executor toolexec.Executor
	shop     *shop
	person   *person
	tally    tally
	story    *story
	host     Host
}

func newWorld(seed uint64, p pace, out io.Writer) *world {
	w := &world{seed: seed}
	w.executor.Policy, w.executor.Observer = p.policy(), &w.tally
	w.shop = openShop(&w.executor, p, rand.New(rand.NewPCG(seed, 1)))
	w.person = &person{supervisor: toolexec.Supervisor{Executor: &w.executor}, shop: w.shop}
	w.story = newStory(p, &w.tally, out)
	const runID = "run_1"
	work := workList(runID)
	w.host = Host{
		Executor: &w.executor,
		Model:    newScripted(rand.New(rand.NewPCG(seed, 2)), w.shop.tools, work),
		People:   w.person,
		RunID:    runID,
		Tools:    w.shop.tools,
		Work:     work,
		MaxTurns: 300,
		Pause:    p.short(500 * time.Millisecond),
		Reply:    p.short(3 * time.Second),
		Patience: 10,
		Witness:  w.story,
	}
	return w
}

// workList is what has to be done in a run.
func workList(runID string) []Step {
	work := []Step{{Tool: "search_orders", Ref: runID + "/step_1"}}
	for _, o := range orders {
		work = append(work, Step{Tool: "process_refund", Order: o.ID})
	}
	for i, o := range orders {
		work = append(work, Step{Tool: "send_mail", Order: o.ID, Ref: fmt.Sprintf("%s/step_%d", runID, len(orders)+i+2)})
	}
	return work
}

// play runs the model until the work is done, and prints it.
func (w *world) play(ctx context.Context) error {
	w.story.head(w.seed, w.shop, w.host.Work)
	err := w.host.Run(ctx)
	if err == nil {
		err = w.executor.Close(ctx) // what outlived its call has ended
	}
	w.shop.close()
	if err != nil {
		return err
	}
	wrong := w.story.ledger(w.shop)
	w.story.mistakes()
	if w.story.err != nil {
		return w.story.err
	}
	if wrong > 0 {
		return fmt.Errorf("orders that were not refunded exactly once, with one mail: %d", wrong)
	}
	return nil
}
