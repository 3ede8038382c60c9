import Records
import RelayCore
import StoreKit

extension SQLiteWriter: SharingWriter {
    var sharingRows: SQLiteWriter { self }
    var hasWatchedTypes: Bool { !cache.watchedTypes.isEmpty }
    func isWatched(_ type: String) -> Bool { cache.watchedTypes[type] != nil }

    /// Makes tokens of zones; all owners of a file have one epoch.
    var token: (_ identity: UInt64, _ position: UInt64) -> ChangeToken {
        { [epoch] in ChangeToken(kind: .zone, log: $0, epoch: epoch, position: $1) }
    }

    func token(of owner: UserID) -> (_ identity: UInt64, _ position: UInt64) -> ChangeToken { token }

    func assignInvitations(
        to contacts: [Share.Contact],
        inZonesOf owner: UserID,
        to user: UserID
    ) throws(RelayError) {
        try requireOwner(owner)
        try attempt {
            guard let ownerNumber = try number(of: owner) else { return }
            let number = try ensureNumber(of: user)
            for contact in contacts {
                let (column, text) =
                    switch contact {
                    case .email(let address): ("email", address)
                    case .phone(let number): ("phone", number)
                    }
                let statement = try SQL(
                    """
                    UPDATE participant SET user = ?1 WHERE \(column) = ?2 AND user IS NULL AND share IN (
                        SELECT s.id FROM share s JOIN zone_row z ON z.id = s.zone WHERE z.owner = ?3)
                    """,
                    in: database
                )
                statement.bind(1, number)
                statement.bind(2, text)
                statement.bind(3, ownerNumber)
                try statement.run()
            }
        }
    }
}
