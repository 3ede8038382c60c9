import Foundation
import Records
import Synchronization
import Wire

extension ModifyItem {
    /// A field holds what no field can, or the parent is where no parent can be.
    var unsendable: CKError? {
        if let zone = state?.strayParentZone {
            return CKError(
                .invalidArguments,
                "The parent is in another zone, '\(zone)'. A record and its parent have to be in the same zone."
            )
        }
        guard let (field, type) = state?.unsendable.min(by: { $0.key < $1.key }) else { return nil }
        return CKError(.invalidArguments, "Field '\(field)' holds a \(type), which no record field can hold.")
    }
}

/// A record as it was when its save was asked for.
///
/// Files, sealed values and fields are all of this one state: what the program changes while they are sent, part by part, is
/// not half in the save, and is not taken for saved.
struct Draft {
    let record: CKRecord
    let state: RecordState
    /// People and rights, where it is a share; with participants of its own.
    let sharing: ShareState?

    init(_ record: CKRecord) {
        self.record = record
        state = record.state.withLock { $0 }
        sharing = (record as? CKShare)?.sharing.withLock { $0.copy() }
    }
}

/// One item of a batch with what is sent for it.
struct ModifyItem {
    /// `nil`: a deletion.
    let record: CKRecord?
    /// The record's state when its save was asked for.
    let state: RecordState?
    /// The same of a share's people.
    let sharing: ShareState?
    let id: CKRecord.ID
    let write: ClientRequest.Write
    /// Why it is not even sent.
    let refusal: CKError?

    /// `roots` are the names of the records in the same call; `caller` is the current user's record name, where needed.
    init(
        _ draft: Draft,
        _ policy: CKModifyRecordsOperation.RecordSavePolicy,
        _ files: SentFiles = SentFiles(),
        roots: Set<String> = [],
        caller: String? = nil
    ) {
        let state = draft.state
        // Whatever is asked for: what was changed elsewhere, a participant taken out above all, is not written over unseen.
        let policy = draft.sharing != nil ? .ifServerRecordUnchanged : policy
        record = draft.record
        self.state = state
        sharing = draft.sharing
        id = state.id
        refusal = files.failures[state.id]
        var write = state.write(policy, files)
        write.createsShortGUID = state.asksForLink
        if let caller { write.fields = write.fields.mapValues { $0?.leadingToCaller(named: caller) } }
        if let sealed = files.sealed[state.id] {
            write.fields.merge(sealed) { $1 }
            write.encrypted = Set(sealed.keys)
        }
        write.share = draft.sharing?.write(roots: roots)
        self.write = write
    }

    /// A call's items in the order in which they are sent: shares after the records they share.
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
    /// What to send to save this state: only what was changed, unless the policy wants all that this copy holds.
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
            // Not a replacement: what only the relay has stays, as this copy may have been fetched without it.
            write.fields = changedFields.merging(fields.mapValues { $0 }) { $1 }
        }
        for (key, field) in write.fields where field?.type.isAsset == true {
            write.fields[key] = files.value(of: key, in: self)
        }
        write.untypedLists = untypedLists
        // A record that the relay has not seen has its parent from here, also where only its system fields were kept.
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
    /// The same items, each behind those of them that must be there first, and otherwise in the order given.
    ///
    /// These are its parent, and the records with which it is to be deleted. Within one request the relay takes them in any
    /// order; the parts of a cut call it carries out one after the other.
    func targetsFirst() -> [ModifyItem] {
        let places = Dictionary(indices.filter { self[$0].record != nil }.map { (self[$0].id, $0) }) { first, _ in first
        }
        var isMet = [Bool](repeating: false, count: count)
        var isPlaced = isMet
        var ordered: [ModifyItem] = []
        // No recursion: a chain of parents may be as long as the call.
        for start in indices {
            var open = [start]
            while let here = open.last {
                if isMet[here] {
                    open.removeLast()
                    if !isPlaced[here] { ordered.append(self[here]) }
                    isPlaced[here] = true
                } else {
                    isMet[here] = true
                    open += self[here].targets.compactMap { places[$0] }.filter { !isMet[$0] }
                }
            }
        }
        return ordered
    }
}

extension ModifyItem {
    /// The records that must be there when it is saved.
    fileprivate var targets: [CKRecord.ID] {
        let zoneID = id.zoneID
        let held = write.fields.sorted { $0.key < $1.key }.flatMap { $0.value.map(Self.references) ?? [] }
        let names = held.filter { $0.action == .deleteSelf && $0.zone == nil }.map(\.recordName)
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
