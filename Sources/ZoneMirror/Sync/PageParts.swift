import Records
import SyncCore

extension MirrorPage {
    /// Splits the page into parts whose asset values fit into memory together; deletions and the token are in the last
    /// part.
    ///
    /// Returns the page itself if no value is in an asset.
    func parts(room: Int) -> [MirrorPage] {
        let ranges = records.changed.parts(room: room)
        guard ranges.count > 1 else { return [self] }
        return ranges.enumerated().map { number, range in
            var part = self
            part.isFirstPart = number == 0
            part.isLastPart = number == ranges.count - 1
            part.records.changed = Array(records.changed[range])
            part.readied = readied.isEmpty ? [] : Array(readied[range])
            let names = Set(part.records.changed.map(\.id.recordName))
            part.shares = shares.filter { names.contains($0.name) }
            guard !part.isLastPart else { return part }
            part.records.deleted = []
            part.records.moreComing = true
            part.hasKeys = false
            return part
        }
    }
}

extension [Record] {
    /// Returns at least one range of records; each has at most `room` bytes of asset values, or one record.
    func parts(room: Int) -> [Range<Int>] {
        var (parts, start, bytes): ([Range<Int>], Int, Int64) = ([], 0, 0)
        for index in indices {
            let more = self[index].bytesInFiles
            if bytes > 0, bytes + more > Int64(room) {
                parts.append(start..<index)
                (start, bytes) = (index, 0)
            }
            bytes += more
        }
        parts.append(start..<count)
        return parts
    }
}

extension Record {
    /// The size of the values that a mirror reads from assets.
    fileprivate var bytesInFiles: Int64 {
        fields.reduce(0) { sum, field in
            guard case .asset(let asset) = field.value, field.key.hasSuffix(RecordMapping.companionSuffix) else {
                return sum
            }
            return sum + Swift.max(0, asset.size)
        }
    }
}
