#if Postgres
    package import Records
    import RelayCore
    import StoreKit

    extension PostgresWriter: SharingWriter {
        var sharingRows: PostgresSharingRows { rows }
        var hasWatchedTypes: Bool { !known.watchedTypes.isEmpty }
        func isWatched(_ type: String) -> Bool { known.watchedTypes.contains(type) }

        package func assignInvitations(
            to contacts: [Share.Contact],
            inZonesOf owner: UserID,
            to user: UserID
        ) throws(RelayError) {
            try requireOwner(owner)
            try attempt {
                guard let ownerNumber = try transaction.number(of: owner) else { return }
                let number = try transaction.ensureNumber(of: user)
                // Those of shares have participants.
                knownRecords = [:]
                for contact in contacts {
                    let (column, text) =
                        switch contact {
                        case .email(let address): ("email", address)
                        case .phone(let number): ("phone", number)
                        }
                    transaction.later(
                        """
                        UPDATE participant SET person = $1 WHERE \(column) = $2 AND person IS NULL AND share IN (
                            SELECT s.id FROM zone z JOIN share s ON s.zone = z.id WHERE z.owner = $3)
                        """,
                        .int(number),
                        .text(text),
                        .int(ownerNumber)
                    )
                }
            }
        }
    }
#endif
