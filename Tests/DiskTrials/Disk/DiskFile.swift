/// One file, both as processes see it and as the disk has it.
///
/// Written data becomes durable when it is flushed. Until then a power cut may lose any sector of it. A failed flush
/// loses the data that it should have made durable: the kernel marks such pages as clean, and a second flush succeeds
/// without writing them.
struct DiskFile {
    private(set) var durable: [UInt8] = []
    private var pending: [Change] = []

    enum Change {
        case write(offset: Int, bytes: [UInt8])
        case truncate(size: Int)
    }

    /// The unit of a disk write: a sector is written completely or not at all.
    static let sector = 512

    init(durable: [UInt8] = []) { self.durable = durable }

    mutating func change(_ change: Change) { pending.append(change) }

    mutating func flush() {
        for change in pending { Self.apply(change, to: &durable) }
        pending = []
    }

    mutating func flushFailed() { pending = [] }

    /// The content after a power cut at this moment.
    func survivors(_ choice: inout PowerCut.Choice) -> [UInt8] {
        var bytes = durable
        for change in pending {
            switch change {
            case .truncate: if choice.keeps() { Self.apply(change, to: &bytes) }
            case .write(let offset, let content):
                var start = 0
                while start < content.count {
                    // The part ends at the end of the sector in which it begins.
                    let end = min(content.count, (offset + start) / Self.sector * Self.sector + Self.sector - offset)
                    let part = Array(content[start..<end])
                    if choice.keeps() { Self.apply(.write(offset: offset + start, bytes: part), to: &bytes) }
                    start = end
                }
            }
        }
        return bytes
    }

    private static func apply(_ change: Change, to bytes: inout [UInt8]) {
        switch change {
        case .truncate(let size):
            if size < bytes.count { bytes.removeLast(bytes.count - size) }
        case .write(let offset, let content):
            if bytes.count < offset + content.count {
                bytes += [UInt8](repeating: 0, count: offset + content.count - bytes.count)
            }
            bytes.replaceSubrange(offset..<offset + content.count, with: content)
        }
    }
}

/// What a power cut keeps of unflushed data.
package enum PowerCut: Hashable, Sendable {
    case keepsNothing
    case keepsAll
    /// Keeps each sector at random.
    case keepsSome(seed: UInt64)

    struct Choice {
        private let cut: PowerCut
        private var state: UInt64 = 0

        init(_ cut: PowerCut) {
            self.cut = cut
            if case .keepsSome(let seed) = cut { state = seed }
        }

        mutating func keeps() -> Bool {
            switch cut {
            case .keepsNothing: return false
            case .keepsAll: return true
            case .keepsSome:
                state &+= 0x9E37_79B9_7F4A_7C15
                var mixed = (state ^ (state >> 30)) &* 0xBF58_476D_1CE4_E5B9
                mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
                return (mixed ^ (mixed >> 31)) & 1 == 1
            }
        }
    }
}
