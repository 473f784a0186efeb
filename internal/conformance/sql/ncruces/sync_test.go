package ncruces

import (
	"database/sql"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/ncruces/go-sqlite3/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolexec/toolexec"
	"github.com/toolexec/toolexec/internal/conformance/sql/suite"
	"github.com/toolexec/toolexec/sqlstore"
)

// syncs counts how often SQLite asks for what it has written to reach the disk.
var syncs atomic.Int64

type countingVFS struct{ vfs.VFSFilename }

func (v countingVFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := v.VFSFilename.OpenFilename(name, flags)
	if shared, ok := f.(vfs.FileSharedMemory); ok && err == nil {
		return &countingFile{shared}, flags, nil
	}
	return f, flags, err
}

type countingFile struct{ vfs.FileSharedMemory }

func (f *countingFile) Sync(flags vfs.SyncFlag) error {
	syncs.Add(1)
	return f.FileSharedMemory.Sync(flags)
}

// Each Save that is acknowledged has been synced, whichever connection wrote it;
// with NORMAL none is.
func TestSyncs(t *testing.T) {
	vfs.Register("counting", countingVFS{vfs.Find("").(vfs.VFSFilename)})
	for synchronous, perSave := range map[sqlstore.Synchronous]int64{sqlstore.SynchronousFull: 1, sqlstore.SynchronousNormal: 0} {
		db, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "records.db")+"?vfs=counting")
		db = suite.Pool(t, db, err)
		db.SetMaxIdleConns(3)
		s, err := sqlstore.Open(t.Context(), db, sqlstore.SQLite, sqlstore.Options{Synchronous: synchronous})
		require.NoError(t, err)
		c, err := db.Conn(t.Context()) // keeps the file from being closed for good
		require.NoError(t, err)
		const saves = 40
		syncs.Store(0)
		for i := range saves {
			_, err := s.Save(t.Context(), toolexec.Record{Key: toolexec.Key{Ref: strconv.Itoa(i)}})
			require.NoError(t, err)
			if i == saves/2 {
				db.SetMaxIdleConns(-1) // from here on each Save has a new connection
			}
		}
		// The log is synced once more when it begins.
		assert.InDelta(t, saves*perSave, syncs.Load(), 2, synchronous)
		require.NoError(t, s.Close())
		require.NoError(t, c.Close())
	}
}
