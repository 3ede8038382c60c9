import NIOCore
import RelayAPI

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A file on its way to a peer: the next piece is given when the one before has gone, so that a slow reader is told from
/// one that takes nothing, and the system moves the bytes without a copy of ours.
final class FileSending {
    /// Bytes of one piece.
    private static let piece = 512 * 1024

    private let handle: NIOFileHandle
    private var offset: Int
    private let end: Int
    /// Pieces given that have not gone.
    private var underWay = 0

    /// `nil` if the file cannot be opened.
    init?(_ file: FileBody) {
        let descriptor = open(file.path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        handle = NIOFileHandle(_deprecatedTakingOwnershipOfDescriptor: descriptor)
        offset = Int(file.offset)
        end = Int(file.offset + file.length)
    }

    /// `nil` when all of it has been given.
    func next() -> FileRegion? {
        guard offset < end else { return nil }
        underWay += 1
        let upper = min(end, offset + Self.piece)
        defer { offset = upper }
        return FileRegion(fileHandle: handle, readerIndex: offset, endIndex: upper)
    }

    func pieceHasGone() { underWay -= 1 }

    /// Everything given has gone, and there is no more.
    var isThrough: Bool { offset >= end && underWay == 0 }

    deinit { try? handle.close() }
}
