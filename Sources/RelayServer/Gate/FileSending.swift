import NIOCore
import RelayAPI

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A file, or bytes and files one after the other, on the way to a peer: the next piece is given when one before has gone,
/// so that a slow reader is told from one that takes nothing, and the system moves files without a copy of ours.
final class FileSending {
    enum Piece {
        case file(FileRegion)
        case bytes([UInt8])
    }

    /// Bytes of one piece.
    private static let piece = 512 * 1024
    /// So that the next is there when one has gone.
    private static let mostUnderWay = 2

    private var handle: NIOFileHandle?
    private var offset = 0
    private var end = 0
    private let parts: (any BodyParts)?
    /// Bytes that the parts still owe.
    private var owed: Int64
    /// Pieces given that have not gone.
    private var underWay = 0
    /// What is there is not what the head speaks of.
    private(set) var isBroken = false
    /// Whether somebody is giving out pieces, which callbacks then leave to them.
    var isFeeding = false

    /// `nil` if the file cannot be opened.
    init?(_ response: APIResponse) {
        parts = response.file == nil ? response.parts : nil
        owed = parts?.length ?? 0
        if let file = response.file, !begin(file) { return nil }
    }

    /// `nil` when there is none for now: too many are under way, all of it has been given, or it is broken.
    func next() -> Piece? {
        guard underWay < Self.mostUnderWay, !isBroken else { return nil }
        if offset >= end {
            // What is under way may still be read from the file that is open.
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

    /// Bytes, or none where a file was opened or nothing more comes.
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

    /// Everything given has gone, and there is no more.
    var isThrough: Bool { offset >= end && owed == 0 && underWay == 0 && !isBroken }

    deinit { try? handle?.close() }
}
