import Records
import SyncCore
import Wire
import ZoneKit

/// One page of a zone's feed, with what its share records say about participants.
struct MirrorPage: Sendable {
    var records: ZonePage<Record>
    var shares: [(name: String, details: ClientShare)] = []
    /// Whether the page contains key records, so that locked values may be readable now.
    var hasKeys = false
    /// The zones to which deleted records have moved, by record name.
    var moveTargets: [String: String] = [:]
    /// The records of another user's zone that were removed from this user's view but still exist.
    var invisible: Set<String> = []
    /// The number of records that follow; `nil` if unknown.
    var remaining: Int?
    /// The prepared form of each changed record; empty if nothing was prepared.
    var prepared: [PreparedRecord?] = []
    /// The size of the response in bytes.
    var bytes = 0
    /// Whether this is the first part of a page that is imported in parts.
    var isFirstPart = true
    /// Whether this is the last part of a page that is imported in parts.
    var isLastPart = true
}

extension MirrorPage {
    /// Decodes a page's records and, with a mapping, prepares them for the import.
    ///
    /// - Throws: An error if the relay could not return one of them. The token would mark the record as fetched, and a
    ///   full fetch without it would remove it.
    init(_ answer: FeedPage, of zone: ZoneID, isPrivate: Bool, prepared mapping: RecordMapping? = nil) throws(CKError) {
        var page = MirrorPage(
            records: ZonePage<Record>(changed: [], deleted: [], token: answer.token, moreComing: answer.moreComing),
            remaining: answer.remaining,
            bytes: answer.byteCount
        )
        var missing: ClientResponse.Failure?
        try answer.visit { item, entry in
            switch item {
            case .record(let record) where record.type == ZoneSeal.keyRecordType: page.hasKeys = true
            case .record(let record):
                page.records.changed.append(record)
                if let mapping { page.prepared.append(entry.flatMap { PreparedRecord(record, $0, mapping) }) }
            case .share(let record, let details):
                page.records.changed.append(record)
                page.shares.append((record.id.recordName, details))
                if mapping != nil { page.prepared.append(nil) }
            case .deleted(_, ZoneSeal.keyRecordType, _): break
            case .deleted(let name, let type, _):
                page.records.deleted.append((RecordID(name, in: zone), type ?? ""))
                if isPrivate {
                    page.moveTargets[name] = try? entry?["movedTo"]?.string()
                } else if (try? entry?["outOfSight"]?.bool()) == true {
                    page.invisible.insert(name)
                }
            case .failed(_, let failure): missing = missing ?? failure
            }
        }
        if let missing { throw CKError(missing, at: .item) }
        self = page
    }
}

extension MirrorPage {
    /// Appends the page that follows this one in the feed.
    mutating func append(_ next: MirrorPage) {
        // A record that was deleted and created again in between stays.
        if !records.deleted.isEmpty, !next.records.changed.isEmpty {
            let back = Set(next.records.changed.map(\.id))
            records.deleted.removeAll { back.contains($0.id) }
        }
        records.changed += next.records.changed
        records.deleted += next.records.deleted
        records.token = next.records.token
        records.moreComing = next.records.moreComing
        shares += next.shares
        moveTargets.merge(next.moveTargets) { $1 }
        bytes += next.bytes
        prepared = prepared.isEmpty || next.prepared.isEmpty ? [] : prepared + next.prepared
        hasKeys = hasKeys || next.hasKeys
    }
}

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
            part.prepared = prepared.isEmpty ? [] : Array(prepared[range])
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
