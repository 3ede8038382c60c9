import NIOCore
import RelayAPI

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A response body of files and bytes on the way to a client.
///
/// A piece is returned when an earlier one has been sent, so that a slow reader can be distinguished from a stalled
/// one, and so that the system sends files without copying them.
final class FileSending {
    enum Piece {
        case file(FileRegion)
        case bytes([UInt8])
    }

    /// Maximum bytes of a piece.
    private static let piece = 512 * 1024
    /// Two, so that the next piece is available when one has been sent.
    private static let mostUnderWay = 2

    private var handle: NIOFileHandle?
    private var offset = 0
    private var end = 0
    private let parts: (any BodyParts)?
    /// The number of bytes that `parts` must still provide.
    private var owed: Int64
    /// The number of pieces returned and not sent.
    private var underWay = 0
    /// Whether the content differs from what the head announced.
    private(set) var isBroken = false
    /// Whether a caller is requesting pieces in a loop, so that callbacks need not.
    var isFeeding = false

    /// Returns `nil` if the file cannot be opened.
    init?(_ response: APIResponse) {
        parts = response.file == nil ? response.parts : nil
        owed = parts?.length ?? 0
        if let file = response.file, !begin(file) { return nil }
    }

    /// Returns the next piece; `nil` if too many are in flight, all were returned, or the body is broken.
    func next() -> Piece? {
        guard underWay < Self.mostUnderWay, !isBroken else { return nil }
        if offset >= end {
            // The pieces in flight may still be read from the open file.
            guard owed > 0, underWay == 0 else { return nil }
            if let bytes = nextPart() {
                underWay += 1
                return .bytes(bytes)
            }
        }
        guard !isBroken, offset < end, let handle else { return nil }
        underWay += 1
        let upper = min(end, offset + Self.piece)
        defer { offset = upper }
        return .file(FileRegion(fileHandle: handle, readerIndex: offset, endIndex: upper))
    }

    /// Returns bytes, or `nil` if a file was opened or nothing more follows.
    private func nextPart() -> [UInt8]? {
        switch try? parts?.next() {
        case .bytes(let bytes) where !bytes.isEmpty && bytes.count <= owed:
            owed -= Int64(bytes.count)
            return bytes
        case .file(let file) where file.length > 0 && file.length <= owed && begin(file):
            owed -= file.length
        default: isBroken = true
        }
        return nil
    }

    private func begin(_ file: FileBody) -> Bool {
        try? handle?.close()
        handle = nil
        let descriptor = open(file.path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        handle = NIOFileHandle(_deprecatedTakingOwnershipOfDescriptor: descriptor)
        offset = Int(file.offset)
        end = Int(file.offset + file.length)
        return true
    }

    func pieceHasGone() { underWay -= 1 }

    /// Whether everything has been returned and sent.
    var isThrough: Bool { offset >= end && owed == 0 && underWay == 0 && !isBroken }

    deinit { try? handle?.close() }
}
