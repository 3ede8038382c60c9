import RelayCore
import Synchronization

/// The state of a store that was closed to make room for others, for reopening it in the same process.
///
/// Reopening it starts no new epoch: only a limited number of ended epochs is kept, and a relay with many containers
/// would soon refuse valid tokens.
package struct StorePause: Sendable {
    /// The state at the time of closing.
    struct Life: Sendable {
        var epoch: UInt64
        var hasBegun: Bool
        /// The last change number used, also by failed transactions.
        var lastChange: UInt64
        /// The greatest change number of any zone in the file.
        var greatestStamp: UInt64
    }

    /// `nil` if the file could not be read at the end.
    fileprivate let end: Life?
    /// Kept, because it knows which assets are about to be removed, and unfinished uploads write into it.
    let assets: AssetFolder

    /// Returns the state to continue from; `nil` if the file is not the one that was closed, for example after a
    /// restore.
    func life(goingOnIn state: StoredState) -> Life? {
        let isSame = end?.epoch == state.epochs.current && end?.greatestStamp == state.greatestStamp
        return isSame ? end : nil
    }
}

extension SQLiteStore {
    /// Whether the store may be closed and reopened: not after a lost write, which reopening would hide.
    var canPause: Bool { !isStopped.withLock { $0 } }

    /// Finishes the queued writes and closes the file for a while.
    ///
    /// - Returns: the argument for `init` when the store is reopened.
    func pause() -> StorePause {
        queue.withLock { $0.take() }?.close()
        // No more writes can run.
        let stamp = try? connections.read(StoredState.greatestStamp)
        let lastChange = memory.withLock { $0?.lastChange }
        let life = stamp.flatMap { stamp in
            lastChange.map {
                StorePause.Life(
                    epoch: epoch,
                    hasBegun: hasBegun.load(ordering: .relaxed),
                    lastChange: $0,
                    greatestStamp: stamp
                )
            }
        }
        connections.close()
        return StorePause(end: canPause ? life : nil, assets: assets)
    }
}
