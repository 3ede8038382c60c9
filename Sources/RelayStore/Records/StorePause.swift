import RelayCore
import Synchronization

/// What a store that was closed to make room for others goes on from when the same process opens it again.
///
/// Then that is no new life, with an epoch of its own: of those only so many are remembered, and a relay of many containers
/// would have soon refused tokens that are good.
package struct StorePause: Sendable {
    /// How far a store's life had come.
    struct Life: Sendable {
        var epoch: UInt64
        var hasBegun: Bool
        /// The last number that was given out, also to what came to nothing.
        var lastChange: UInt64
        /// The greatest that anything in the file was stamped with.
        var greatestStamp: UInt64
    }

    /// `nil` where the file could not be read at the end.
    fileprivate let end: Life?
    /// They know what is about to be removed, and uploads that are on their way go into them.
    let assets: AssetFolder

    /// The life that goes on; `nil` where the file is another than the one that was closed, as one that was put back is.
    func life(goingOnIn state: StoredState) -> Life? {
        let isSame = end?.epoch == state.epochs.current && end?.greatestStamp == state.greatestStamp
        return isSame ? end : nil
    }
}

extension SQLiteStore {
    /// Whether it may be closed and opened again: not where that would hide that the disk has lost something.
    var canPause: Bool { !isStopped.withLock { $0 } }

    /// Finishes the writes that wait and closes the file, for a while.
    ///
    /// Returns what `init` wants to have when it is opened again.
    func pause() -> StorePause {
        queue.withLock { $0.take() }?.close()
        // Nobody writes any more.
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
