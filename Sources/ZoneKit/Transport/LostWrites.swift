import Foundation
package import Records
import Synchronization
package import Wire

/// Writes whose answers were lost, so that the same write has the same name when it is sent again.
///
/// The relay carries out one write of a name: a repeat is answered as if it were the first, even where others have changed
/// since what it did; so what they have put in its place is not swept away by it. Kept in memory only; after a
/// restart of the program a repeat meets its own first coming as a conflict, and loses nothing either.
package final class LostWrites: Sendable {
    /// What a write of records asks for.
    fileprivate struct Write: Hashable {
        var isAtomic: Bool
        var records: [ClientRequest.Write]
    }

    /// To what writes go.
    fileprivate struct Place: Hashable {
        var scope: DatabaseScope
        var zone: ZoneID
        var operation: String
    }

    /// The latest lost one of each place: its hash, and its name.
    ///
    /// What is written is not kept, since it may be large.
    private let lost = Mutex<[Place: (hash: Int, name: String)]>([:])
    /// More places than anybody writes to at once.
    private static let limit = 64

    /// The name for a write that is about to be sent.
    fileprivate func name(of hash: Int, to place: Place) -> String {
        let known = lost.withLock { $0[place] }
        if let known, known.hash == hash { return known.name }
        return UUID().uuidString
    }

    /// It may or may not have been carried out.
    fileprivate func answerLost(_ hash: Int, name: String, to place: Place) {
        lost.withLock { lost in
            if lost.count >= Self.limit { lost.removeAll() }
            lost[place] = (hash, name)
        }
    }

    /// It has been carried out, once.
    fileprivate func answered(to place: Place) { lost.withLock { $0[place] = nil } }
}

extension RelayConnection {
    /// Sends a write under a name by which the relay knows it again, should its answer be lost.
    ///
    /// `content` is all that the write asks for, and `zone` what it is about, or one of those; `body` makes the request's
    /// body with the name in it.
    package func write(
        _ content: some Hashable,
        to zone: ZoneID,
        of scope: DatabaseScope,
        _ operation: String,
        settings: RequestSettings = RequestSettings(),
        _ body: (_ name: String) -> [UInt8]
    ) async throws(CallFailure) -> JSONDocument {
        let place = LostWrites.Place(scope: scope, zone: zone, operation: operation)
        let hash = content.hashValue
        let name = lostWrites.name(of: hash, to: place)
        do throws(CallFailure) {
            let call = RelayCall(scope, operation, body(name), isWrite: true, settings: settings)
            let document = try await send(call)
            lostWrites.answered(to: place)
            return document
        } catch {
            switch error.error.code {
            case .serverResponseLost, .operationCancelled: lostWrites.answerLost(hash, name: name, to: place)
            default: break
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
        settings: RequestSettings = RequestSettings()
    ) async throws(CallFailure) -> JSONDocument {
        let content = LostWrites.Write(isAtomic: isAtomic, records: records)
        return try await write(content, to: zone, of: scope, "records/modify", settings: settings) { name in
            ClientRequest.modify(records, in: zone, atomically: isAtomic, operationID: name)
        }
    }
}
