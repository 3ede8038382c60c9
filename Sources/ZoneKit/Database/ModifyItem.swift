import Foundation
import Records
import SyncCore
import Synchronization
import Wire

extension ModifyItem {
    /// The error if a field has an unsupported value or the parent is in another zone.
    var unsendable: CKError? {
        if let zone = state?.foreignParentZone {
            return CKError(
                .invalidArguments,
                "The parent is in another zone, '\(zone)'. A record and its parent must be in the same zone."
            )
        }
        guard let (field, type) = state?.unsendable.min(by: { $0.key < $1.key }) else { return nil }
        return CKError(.invalidArguments, "Field '\(field)' holds a \(type), which record fields do not support.")
    }
}

/// The state of a record at the time of a save.
///
/// Files, sealed values and fields are taken from this one state. Changes that the app makes while they are being sent
/// are neither part of the save nor regarded as saved.
struct Draft {
    let record: CKRecord
    let state: RecordState
    /// A copy of the participants and permissions, if the record is a share.
    let sharing: ShareState?

    init(_ record: CKRecord) {
        self.record = record
        state = record.state.withLock { $0 }
        sharing = (record as? CKShare)?.sharing.withLock { $0.copy() }
    }
}

/// One item of a batch, with the write that is sent for it.
struct ModifyItem {
    /// `nil` for a deletion.
    let record: CKRecord?
    /// The record's state at the time of the save.
    let state: RecordState?
    /// The share's participants at the time of the save.
    let sharing: ShareState?
    let id: CKRecord.ID
    let write: ClientRequest.Write
    /// The error if the item cannot be sent.
    let refusal: CKError?

    /// Creates an item for a save.
    ///
    /// `roots` contains the names of the records in the same call; `caller` is the current user's record name, if it is
    /// needed.
    init(
        _ draft: Draft,
        _ policy: CKModifyRecordsOperation.RecordSavePolicy,
        _ files: SentFiles = SentFiles(),
        roots: Set<String> = [],
        caller: String? = nil
    ) {
        let state = draft.state
        // Shares ignore the policy, so that a save never silently overwrites changes by others, such as the removal of
        // a participant.
        let policy = draft.sharing != nil ? .ifServerRecordUnchanged : policy
        record = draft.record
        self.state = state
        sharing = draft.sharing
        id = state.id
        refusal = files.failures[state.id]
        var write = state.write(policy, files)
        write.createsShortGUID = state.needsShortGUID
        if let caller { write.fields = write.fields.mapValues { $0?.replacingCaller(named: caller) } }
        if let sealed = files.sealed[state.id] {
            write.fields.merge(sealed) { $1 }
            write.encrypted = Set(sealed.keys)
        }
        write.share = draft.sharing?.write(roots: roots)
        self.write = write
    }

    /// Returns the items of a call in the order in which they are sent: shares follow the records they share.
    static func items(
        saving drafts: [Draft],
        deleting ids: [CKRecord.ID],
        _ policy: CKModifyRecordsOperation.RecordSavePolicy,
        _ files: SentFiles = SentFiles(),
        caller: String? = nil
    ) -> [ModifyItem] {
        let shares = drafts.filter { $0.sharing != nil }
        let deletions = ids.map { ModifyItem(deleting: $0) }
        guard !shares.isEmpty else { return drafts.map { ModifyItem($0, policy, files, caller: caller) } + deletions }
        let others = drafts.filter { $0.sharing == nil }
        let roots = Set(others.map(\.state.id.recordName))
        return (others + shares).map { ModifyItem($0, policy, files, roots: roots, caller: caller) } + deletions
    }

    init(deleting id: CKRecord.ID) {
        record = nil
        state = nil
        sharing = nil
        refusal = nil
        self.id = id
        write = ClientRequest.Write(.forceDelete, id.recordName)
    }
}

extension RecordState {
    /// Returns the write that saves this state.
    ///
    /// It contains only the changes, unless the policy requires all fields.
    func write(
        _ policy: CKModifyRecordsOperation.RecordSavePolicy,
        _ files: SentFiles = SentFiles()
    ) -> ClientRequest.Write {
        var write = ClientRequest.Write(.forceUpdate, id.recordName, recordType: type)
        switch policy {
        case .ifServerRecordUnchanged:
            write.type = changeTag == nil ? .create : .update
            write.changeTag = changeTag
            write.fields = changedFields
        case .changedKeys:
            write.fields = changedFields
        case .allKeys:
            // Not a replacement: fields that only the relay has are kept, because this copy may have been fetched
            // without them.
            write.fields = changedFields.merging(fields.mapValues { $0 }) { $1 }
        }
        for (key, field) in write.fields where field?.type.isAsset == true {
            write.fields[key] = files.value(of: key, in: self)
        }
        write.untypedLists = untypedLists
        // For a record that was never saved, the parent is sent even if the record was restored from its system fields.
        let isNews = policy == .allKeys || changeTag == nil
        if parentEdit != nil || (isNews && parent != nil) { write.parent = .some(parent) }
        return write
    }

    private var changedFields: [String: FieldValue?] {
        var changed: [String: FieldValue?] = [:]
        for key in edits.keys { changed.updateValue(fields[key], forKey: key) }
        return changed
    }
}

extension [ModifyItem] {
    /// Returns the items in an order in which each item follows the items it refers to, and otherwise in the given
    /// order.
    ///
    /// An item refers to its parent and to the targets of its `deleteSelf` references. Within one request the relay
    /// accepts items in any order, but it executes the requests of a split call one after another.
    func inDependencyOrder() -> [ModifyItem] {
        let positions = Dictionary(indices.filter { self[$0].record != nil }.map { (self[$0].id, $0) }) { first, _ in
            first
        }
        var isVisited = [Bool](repeating: false, count: count)
        var isAppended = isVisited
        var ordered: [ModifyItem] = []
        // Iterative, because a chain of parents may be as long as the call.
        for start in indices {
            var open = [start]
            while let here = open.last {
                if isVisited[here] {
                    open.removeLast()
                    if !isAppended[here] { ordered.append(self[here]) }
                    isAppended[here] = true
                } else {
                    isVisited[here] = true
                    open += self[here].targets.compactMap { positions[$0] }.filter { !isVisited[$0] }
                }
            }
        }
        return ordered
    }
}

extension ModifyItem {
    /// The records that must exist when the item is saved.
    fileprivate var targets: [CKRecord.ID] {
        let zoneID = id.zoneID
        let references = write.fields.sorted { $0.key < $1.key }.flatMap { $0.value.map(Self.references) ?? [] }
        let names = references.filter { $0.action == .deleteSelf && $0.zone == nil }.map(\.recordName)
        let parent = (write.parent ?? nil).map { [$0] } ?? []
        return (names + parent).map { CKRecord.ID(recordName: $0, zoneID: zoneID) }
    }

    private static func references(in value: FieldValue) -> [Reference] {
        switch value {
        case .reference(let reference): [reference]
        case .list(.reference, let values): values.flatMap(references)
        default: []
        }
    }
}

extension BatchLimits {
    /// Splits two lists that belong together into as many requests as necessary; one request if both are empty.
    static func parts<First, Second>(_ first: [First], _ second: [Second]) -> [(first: [First], second: [Second])] {
        let count = first.count + second.count
        return stride(from: 0, to: max(count, 1), by: maxOperations).map { start in
            let end = min(start + maxOperations, count)
            return (
                Array(first[min(start, first.count)..<min(end, first.count)]),
                Array(second[max(start - first.count, 0)..<max(end - first.count, 0)])
            )
        }
    }
}
