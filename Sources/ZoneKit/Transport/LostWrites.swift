import Foundation
package import Records
import SyncCore
import Synchronization
package import Wire

/// Writes whose answers were lost, so that the same write has the same name when it is sent again.
///
/// The relay carries out one write of a name: a repeat is answered as if it were the first, even where others have changed
/// since what it did; so what they have put in its place is not swept away by it. Kept in memory only; after a
/// restart of the program a repeat meets its own first coming as a conflict, and loses nothing either.
///
/// An engine or a mirror repeats what it has to send until there is an answer. A program's own call ends with its error: the
/// same call much later, or after a look at the record, is no repeat but means the record as it is now.
package final class LostWrites: Sendable {
    /// What a write of records asks for.
    fileprivate struct Write: Hashable, Sendable {
        var isAtomic: Bool
        var records: [ClientRequest.Write]
    }

    /// What a write of zones asks for.
    fileprivate struct ZoneWrite: Hashable, Sendable {
        var creating: [ZoneID]
        var deleting: [ZoneID]
        var loss: ZoneLoss
    }

    /// To what writes go.
    fileprivate struct Place: Hashable {
        var scope: DatabaseScope
        var zone: ZoneID
        var operation: String
    }

    /// For how long the same write counts as a repeat.
    package enum Memory: Sendable {
        case untilAnswered
        /// Longer than anybody waits who calls again because of the error.
        case minutes

        fileprivate var length: Duration? { self == .minutes ? .seconds(600) : nil }
    }

    private struct Lost {
        var isSame: @Sendable (any Sendable) -> Bool
        /// The records that it writes.
        var records: Set<String> = []
        /// Those of them that it writes whatever their version.
        var forced: Set<String> = []
        /// The zones that it deletes.
        var zones: Set<ZoneID> = []
        var name: String
        var at: Moment
        /// `nil`: until there is an answer.
        var until: Moment?
    }

    /// The latest lost one of each place.
    private let lost = Mutex<[Place: Lost]>([:])
    /// More places than anybody writes to at once.
    private static let limit = 64
    fileprivate static let modify = "records/modify"

    /// The name for a write that is about to be sent.
    fileprivate func name(of content: any Sendable, to place: Place, at now: Moment) -> String {
        let known = lost.withLock { lost in
            lost = lost.filter { $0.value.until.map { $0 > now } ?? true }
            return lost[place]
        }
        if let known, known.isSame(content) { return known.name }
        return UUID().uuidString
    }

    /// It may or may not have been carried out.
    fileprivate func answerLost<Content: Equatable & Sendable>(
        _ content: Content,
        name: String,
        to place: Place,
        at now: Moment,
        for memory: Memory
    ) {
        lost.withLock { lost in
            if lost.count >= Self.limit { lost.removeAll() }
            let until = memory.length.map { now + $0 }
            var write = Lost(isSame: { $0 as? Content == content }, name: name, at: now, until: until)
            if let records = (content as? Write)?.records {
                write.records = Set(records.map(\.recordName))
                let forced = records.filter { !$0.type.needsChangeTag && $0.type != .create }
                write.forced = Set(forced.map(\.recordName))
            }
            if let zones = content as? ZoneWrite { write.zones = Set(zones.deleting) }
            lost[place] = write
        }
    }

    /// It has been carried out, once.
    fileprivate func answered(to place: Place) { lost.withLock { $0[place] = nil } }

    /// The program has seen records, by a request that was made at `moment`.
    fileprivate func saw(
        _ records: some Sequence<CKRecord.ID>,
        _ glance: Glance,
        of scope: DatabaseScope,
        at moment: Moment
    ) {
        lost.withLock { lost in
            // Hardly ever is anything lost.
            guard !lost.isEmpty else { return }
            for record in records {
                let place = Place(scope: scope, zone: record.zoneID.zone, operation: Self.modify)
                guard let known = lost[place], known.until != nil, known.at <= moment,
                    (glance == .byName ? known.records : known.forced).contains(record.recordName)
                else { continue }
                lost[place] = nil
            }
        }
    }

    /// The program has seen that zones are there, by a request that was made at `moment`.
    fileprivate func saw(_ zones: some Sequence<ZoneID>, of scope: DatabaseScope, at moment: Moment) {
        lost.withLock { lost in
            guard !lost.isEmpty else { return }
            let zones = Set(zones)
            lost = lost.filter { place, known in
                known.until == nil || known.at > moment || place.scope != scope || known.zones.isDisjoint(with: zones)
            }
        }
    }

    /// The program has come into a share in a zone of somebody else's, and what it asks of the zone is meant of that.
    fileprivate func cameInto(_ zone: ZoneID) {
        lost.withLock { lost in
            lost = lost.filter { place, known in
                known.until == nil || place.scope != .shared || (place.zone != zone && !known.zones.contains(zone))
            }
        }
    }

    /// How a program comes to see a record.
    enum Glance {
        /// It has asked for this very one, to know what has become of it.
        case byName
        /// It has come upon it among others: what makes a record or names its version means the same as before.
        case amongOthers
    }
}

extension RelayConnection {
    var now: Moment { (conditions?.time ?? .system).now() }

    /// The program has seen records, by a request that was made at `moment`: from now on it means them as they are.
    func saw(
        _ records: some Sequence<CKRecord.ID>,
        _ glance: LostWrites.Glance,
        of scope: DatabaseScope,
        at moment: Moment
    ) {
        lostWrites.saw(records, glance, of: scope, at: moment)
    }

    /// The program has seen that zones are there.
    func saw(_ zones: some Sequence<CKRecordZone.ID>, of scope: DatabaseScope, at moment: Moment) {
        lostWrites.saw(zones.lazy.map(\.zone), of: scope, at: moment)
    }

    /// The program has come into a share: who had left it without hearing so may leave it again.
    func cameInto(_ zone: ZoneID) { lostWrites.cameInto(zone) }

    /// Sends a write under a name by which the relay knows it again, should its answer be lost.
    ///
    /// `content` is all that the write asks for, and `zone` what it is about, or one of those; `body` makes the request's
    /// body with the name in it.
    package func write(
        _ content: some Equatable & Sendable,
        to zone: ZoneID,
        of scope: DatabaseScope,
        _ operation: String,
        settings: RequestSettings = RequestSettings(),
        remembered memory: LostWrites.Memory = .untilAnswered,
        _ body: (_ name: String) -> [UInt8]
    ) async throws(CallFailure) -> JSONDocument {
        let place = LostWrites.Place(scope: scope, zone: zone, operation: operation)
        let name = lostWrites.name(of: content, to: place, at: now)
        do throws(CallFailure) {
            let call = RelayCall(scope, operation, body(name), isWrite: true, settings: settings)
            let document = try await send(call)
            lostWrites.answered(to: place)
            return document
        } catch {
            if error.error.leavesOutcomeOpen {
                lostWrites.answerLost(content, name: name, to: place, at: now, for: memory)
            }
            throw error
        }
    }

    /// Sends a `records/modify` under a name of its own.
    package func modify(
        _ records: [ClientRequest.Write],
        in zone: ZoneID,
        of scope: DatabaseScope,
        atomically isAtomic: Bool,
        settings: RequestSettings = RequestSettings(),
        remembered memory: LostWrites.Memory = .untilAnswered
    ) async throws(CallFailure) -> JSONDocument {
        let content = LostWrites.Write(isAtomic: isAtomic, records: records)
        return try await write(
            content,
            to: zone,
            of: scope,
            LostWrites.modify,
            settings: settings,
            remembered: memory
        ) { name in
            ClientRequest.modify(records, in: zone, atomically: isAtomic, operationID: name)
        }
    }

    /// Sends a `zones/modify` under a name of its own: a zone that was deleted and made again meanwhile is not deleted by a
    /// repeat.
    func modify(
        creating: [ZoneID],
        deleting: [ZoneID],
        because loss: ZoneLoss,
        of scope: DatabaseScope,
        settings: RequestSettings,
        remembered memory: LostWrites.Memory
    ) async throws(CallFailure) -> JSONDocument {
        try await write(
            LostWrites.ZoneWrite(creating: creating, deleting: deleting, loss: loss),
            to: creating.first ?? deleting.first ?? ZoneID(ZoneID.defaultName),
            of: scope,
            "zones/modify",
            settings: settings,
            remembered: memory
        ) { name in
            ClientRequest.modify(creating: creating, deleting: deleting, of: scope, loss: loss, operationID: name)
        }
    }
}
