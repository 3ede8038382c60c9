import Foundation
package import Records
import Synchronization
package import Wire

/// Writes whose answers were lost, so that the same write has the same name when it is sent again.
///
/// The relay carries out one write of a name: a repeat is answered as if it were the first. Kept in memory only; after a
/// restart of the program a repeat meets its own first coming as a conflict, and loses nothing either.
package final class LostWrites: Sendable {
    /// What a write asks for, where.
    package struct Write: Hashable, Sendable {
        var scope: DatabaseScope
        var zone: ZoneID
        var isAtomic: Bool
        var records: [ClientRequest.Write]
    }

    private struct Place: Hashable {
        var scope: DatabaseScope
        var zone: ZoneID
    }

    /// The latest lost one of each zone: its hash, and its name.
    ///
    /// Records are not kept, since they may be large.
    private let lost = Mutex<[Place: (hash: Int, name: String)]>([:])
    /// More zones than anybody writes to at once.
    private static let limit = 64

    /// The name for a write that is about to be sent.
    func name(of write: Write) -> String {
        let known = lost.withLock { $0[Place(scope: write.scope, zone: write.zone)] }
        if let known, known.hash == write.hashValue { return known.name }
        return UUID().uuidString
    }

    /// It may or may not have been carried out.
    func answerLost(_ write: Write, name: String) {
        lost.withLock { lost in
            if lost.count >= Self.limit { lost.removeAll() }
            lost[Place(scope: write.scope, zone: write.zone)] = (write.hashValue, name)
        }
    }

    /// It has been carried out, once.
    func answered(_ write: Write) { lost.withLock { $0[Place(scope: write.scope, zone: write.zone)] = nil } }
}

extension RelayConnection {
    /// Sends a `records/modify` under a name by which the relay knows it again, should its answer be lost.
    package func modify(
        _ records: [ClientRequest.Write],
        in zone: ZoneID,
        of scope: DatabaseScope,
        atomically isAtomic: Bool,
        settings: RequestSettings = RequestSettings()
    ) async throws(CallFailure) -> JSONDocument {
        let write = LostWrites.Write(scope: scope, zone: zone, isAtomic: isAtomic, records: records)
        let name = lostWrites.name(of: write)
        let body = ClientRequest.modify(records, in: zone, atomically: isAtomic, operationID: name)
        do throws(CallFailure) {
            let call = RelayCall(scope, "records/modify", body, isWrite: true, settings: settings)
            let document = try await send(call)
            lostWrites.answered(write)
            return document
        } catch {
            switch error.error.code {
            case .serverResponseLost, .operationCancelled: lostWrites.answerLost(write, name: name)
            default: break
            }
            throw error
        }
    }
}
