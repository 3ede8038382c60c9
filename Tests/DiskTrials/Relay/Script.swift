import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import SQLiteStore
import Wire

/// The writes to try on failing disks: at least one for each way in which the relay writes.
///
/// Each step depends on the steps before it. Values only grow, so a reappearing old value is noticed.
package enum Script {
    static let steps: [Step] =
        [
            makeZone("Notes"), makeZone("Box"),
            save(["a": 1, "b": 1, "c": 1], in: "Notes"),
            save(["a": 2, "d": 2], in: "Notes"),
            delete(["b"], in: "Notes"),
            save(Dictionary(uniqueKeysWithValues: (0..<40).map { ("m\($0)", 3) }), in: "Box"),
            savePublic("p", 1), savePublic("q", 2), savePublic("p", 3), deletePublic("q"),
            subscribe("to notes"), unsubscribe("to notes"), subscribe("to more"),
            saveAsset("an asset's content", as: "file", in: "Notes"),
            saveAsset(String(repeating: "another one ", count: 2_000), as: "file", in: "Notes"),
            share("Notes"), accept("Notes"),
            saveShared(["e": 4], in: "Notes"),
            move(["d"], from: "Notes", to: "Box"), move(["m0"], from: "Box", to: "Notes"),
            endShare("Notes"),
            move(["m1", "m2", "m3"], from: "Box", to: "Notes"),
            moveAll(from: "Box", to: "Shelf"),
            save(["a": 5, "c": 5, "d": 5], in: "Notes"),
            deleteZone("Shelf"),
            importSchema("first"), promote("first"), importSchema("second"), promote("second"),
            clearAssets(),
        ] + accounts

    private static let accounts: [Step] = [
        addAccount("eve@example.org"), setPassword("eve@example.org"), signIn("eve@example.org"),
        disable("eve@example.org"), addToken("web"), revokeToken("web"),
        addAccount("zoe@example.org"), name("zoe@example.org", "Zoe"), signIn("zoe@example.org"),
        signOut("zoe@example.org"),
    ]

    // MARK: Zones

    package static func makeZone(_ zone: String) -> Step {
        Step(name: "make zone \(zone)", apply: { $0.merging(["zone \(zone)": "there"]) { $1 } }) { world in
            try await world.outcome(
                of: "private/zones/modify",
                #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"\#(zone)"}}}]}"#,
                items: "zones"
            )
        }
    }

    static func deleteZone(_ zone: String) -> Step {
        Step(
            name: "delete zone \(zone)",
            apply: { facts in
                guard facts["zone \(zone)"] != nil else { return nil }
                return facts.filter { !$0.key.hasPrefix("\(zone)/") && $0.key != "zone \(zone)" }
            }
        ) { world in
            let outcome = try await world.outcome(
                of: "private/zones/modify",
                #"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"\#(zone)"}}}]}"#,
                items: "zones"
            )
            // The purge runs after the answer and belongs to this step too.
            if outcome == .done { try await world.waitForPurge() }
            return outcome
        }
    }

    // MARK: Records

    /// Saves all of the records or none.
    package static func save(_ values: [String: Int], in zone: String) -> Step {
        Step(name: "save \(values.count) in \(zone)", apply: { saved(values, in: zone, of: $0) }) { world in
            try await world.modify("private", zone: #"{"zoneName":"\#(zone)"}"#, saves(values))
        }
    }

    private static func saved(_ values: [String: Int], in zone: String, of facts: Facts) -> Facts? {
        guard facts["zone \(zone)"] != nil else { return nil }
        return facts.merging(values.map { ("\(zone)/\($0)", "\($1)") }) { $1 }
    }

    private static func saves(_ values: [String: Int]) -> [String] {
        values.sorted { $0.key < $1.key }.map { name, value in
            #"{"operationType":"forceUpdate","record":{"recordName":"\#(name)","recordType":"Note","#
                + #""fields":{"value":{"value":\#(value)}}}}"#
        }
    }

    private static func deletes(_ names: [String]) -> [String] {
        names.map { #"{"operationType":"forceDelete","record":{"recordName":"\#($0)"}}"# }
    }

    static func delete(_ names: [String], in zone: String) -> Step {
        Step(
            name: "delete \(names.joined(separator: " ")) in \(zone)",
            apply: { facts in
                guard names.allSatisfy({ facts["\(zone)/\($0)"] != nil }) else { return nil }
                return facts.filter { fact in !names.contains { "\(zone)/\($0)" == fact.key } }
            }
        ) { world in try await world.modify("private", zone: #"{"zoneName":"\#(zone)"}"#, deletes(names)) }
    }

    static func savePublic(_ name: String, _ value: Int) -> Step {
        Step(name: "save public \(name)", apply: { $0.merging(["public/\(name)": "\(value)"]) { $1 } }) { world in
            try await world.modify("public", zone: #"{"zoneName":"_defaultZone"}"#, saves([name: value]))
        }
    }

    static func deletePublic(_ name: String) -> Step {
        Step(
            name: "delete public \(name)",
            apply: { $0["public/\(name)"] == nil ? nil : $0.filter { $0.key != "public/\(name)" } }
        ) { world in try await world.modify("public", zone: #"{"zoneName":"_defaultZone"}"#, deletes([name])) }
    }

    // MARK: Subscriptions

    static func subscribe(_ name: String) -> Step {
        let query = #"{"recordType":"Note","filterBy":[]}"#
        return Step(name: "subscribe \(name)", apply: { $0.merging(["subscription \(name)": "there"]) { $1 } }) {
            world in
            try await world.outcome(
                of: "private/subscriptions/modify",
                #"{"operations":[{"operationType":"create","subscription":{"subscriptionID":"\#(name)","#
                    + #""subscriptionType":"query","query":\#(query),"firesOn":["create","update"]}}]}"#,
                items: "subscriptions"
            )
        }
    }

    static func unsubscribe(_ name: String) -> Step {
        Step(
            name: "unsubscribe \(name)",
            apply: { $0["subscription \(name)"] == nil ? nil : $0.filter { $0.key != "subscription \(name)" } }
        ) { world in
            try await world.outcome(
                of: "private/subscriptions/modify",
                #"{"operations":[{"operationType":"delete","subscription":{"subscriptionID":"\#(name)"}}]}"#,
                items: "subscriptions"
            )
        }
    }

    // MARK: Assets

    /// Uploads the asset and saves the record that refers to it.
    static func saveAsset(_ content: String, as name: String, in zone: String) -> Step {
        Step(
            name: "save an asset of \(content.count) bytes",
            apply: { $0["zone \(zone)"] == nil ? nil : $0.merging(["\(zone)/\(name)": content]) { $1 } }
        ) { world in
            let request = #"{"tokens":[{"recordType":"Photo","recordName":"\#(name)","fieldName":"file"}]}"#
            let tokens = try await world.ask("private/assets/upload", request)
            if let outcome = tokens.failure(in: "tokens") { return outcome }
            let url = try tokens.items("tokens").first?.text("url").flatMap { URLComponents(string: $0) }
            guard let url else { throw WorldFailure("no upload address") }
            let sent = try await world.send(
                APIRequest(
                    method: .post,
                    path: url.path,
                    query: url.percentEncodedQuery,
                    headers: [.contentType: "application/octet-stream"],
                    body: Array(content.utf8)
                )
            )
            if let outcome = sent.failure(in: "tokens") { return outcome }
            guard let file = try sent.json?.required("singleFile") else { throw WorldFailure("no receipt") }
            let value = String(decoding: file.rawBytes, as: UTF8.self)
            return try await world.modify(
                "private",
                zone: #"{"zoneName":"\#(zone)"}"#,
                [
                    #"{"operationType":"forceUpdate","record":{"recordName":"\#(name)","recordType":"Photo","#
                        + #""fields":{"file":{"value":\#(value)}}}}"#
                ]
            )
        }
    }

    // MARK: Sharing

    static func share(_ zone: String) -> Step {
        let bob =
            #"{"type":"USER","permission":"READ_WRITE","acceptanceStatus":"INVITED","#
            + #""userIdentity":{"lookupInfo":{"emailAddress":"\#(DiskWorld.bob)"}}}"#
        return Step(
            name: "share \(zone)",
            apply: { facts in
                facts["zone \(zone)"] == nil
                    ? nil : facts.merging(["\(zone)/cloudkit.zoneshare": "cloudkit.share"]) { $1 }
            }
        ) { world in
            try await world.modify(
                "private",
                zone: #"{"zoneName":"\#(zone)"}"#,
                [
                    #"{"operationType":"create","record":{"recordName":"cloudkit.zoneshare","#
                        + #""recordType":"cloudkit.share","participants":[\#(bob)],"fields":{}}}"#
                ]
            )
        }
    }

    static func accept(_ zone: String) -> Step {
        Step(
            name: "accept \(zone)",
            apply: { facts in
                facts["\(zone)/cloudkit.zoneshare"] == nil ? nil : facts.merging(["bob in \(zone)": "there"]) { $1 }
            }
        ) { world in
            let found = try await world.ask(
                "private/records/lookup",
                #"{"zoneID":{"zoneName":"\#(zone)"},"records":[{"recordName":"cloudkit.zoneshare"}]}"#
            )
            if let outcome = found.failure(in: "records") { return outcome }
            let link = try found.items("records").first?.text("shortGUID") ?? ""
            let body = #"{"shortGUIDs":[{"value":"\#(link)"}]}"#
            return try await world.outcome(of: "public/records/accept", as: DiskWorld.bob, body, items: "results")
        }
    }

    static func saveShared(_ values: [String: Int], in zone: String) -> Step {
        Step(
            name: "bob saves in \(zone)",
            apply: { facts in facts["bob in \(zone)"] == nil ? nil : saved(values, in: zone, of: facts) }
        ) { world in
            let owner = try await world.ask("public/users/caller")
            if let outcome = owner.failure(in: "users") { return outcome }
            let name = owner.json?.text("userRecordName") ?? ""
            return try await world.modify(
                "shared",
                as: DiskWorld.bob,
                zone: #"{"zoneName":"\#(zone)","ownerRecordName":"\#(name)"}"#,
                saves(values)
            )
        }
    }

    static func endShare(_ zone: String) -> Step {
        Step(
            name: "end the share of \(zone)",
            apply: { facts in
                guard facts["\(zone)/cloudkit.zoneshare"] != nil else { return nil }
                return facts.filter { $0.key != "\(zone)/cloudkit.zoneshare" && $0.key != "bob in \(zone)" }
            }
        ) { world in
            try await world.modify("private", zone: #"{"zoneName":"\#(zone)"}"#, deletes(["cloudkit.zoneshare"]))
        }
    }

    // MARK: Moves

    static func move(_ names: [String], from source: String, to target: String) -> Step {
        Step(
            name: "move \(names.count) from \(source) to \(target)",
            apply: { facts in
                guard facts["zone \(target)"] != nil, names.allSatisfy({ facts["\(source)/\($0)"] != nil }) else {
                    return nil
                }
                return moved(names, from: source, to: target, of: facts)
            }
        ) { world in
            let records = names.map { #"{"recordName":"\#($0)"}"# }.joined(separator: ",")
            return try await world.outcome(
                of: "private/records/move",
                #"{"zoneID":{"zoneName":"\#(source)"},"destinationZoneID":{"zoneName":"\#(target)"},"#
                    + #""records":[\#(records)]}"#,
                items: "records"
            )
        }
    }

    private static func moved(_ names: [String], from source: String, to target: String, of facts: Facts) -> Facts {
        var facts = facts
        for name in names { facts["\(target)/\(name)"] = facts.removeValue(forKey: "\(source)/\(name)") }
        return facts
    }

    /// Moves all records, creates the target and deletes the source.
    static func moveAll(from source: String, to target: String) -> Step {
        Step(
            name: "move all from \(source) to \(target)",
            apply: { facts in
                guard facts["zone \(source)"] != nil else { return nil }
                let names = facts.keys.filter { $0.hasPrefix("\(source)/") }.map {
                    String($0.dropFirst(source.count + 1))
                }
                var facts = moved(names, from: source, to: target, of: facts)
                facts["zone \(source)"] = nil
                facts["zone \(target)"] = "there"
                return facts
            }
        ) { world in
            try await world.outcome(
                of: "private/records/move",
                #"{"zoneID":{"zoneName":"\#(source)"},"destinationZoneID":{"zoneName":"\#(target)"},"#
                    + #""allRecords":true,"createDestination":true,"deleteSource":true}"#,
                items: "records"
            )
        }
    }

    // MARK: Accounts

    static func addAccount(_ email: String) -> Step {
        Step(
            name: "add account",
            apply: { facts in
                guard facts["account \(email)"] == nil else { return nil }
                return facts.merging(
                    ["account \(email)": "enabled", "password \(email)": "first", "sessions \(email)": "0"]
                ) { $1 }
            }
        ) { world in try world.outcome { _ = try $0.addAccount(email: email, password: "first password") } }
    }

    private static func account(
        _ email: String,
        _ name: String,
        _ change: @escaping @Sendable (inout Facts) -> Void,
        _ body: @escaping @Sendable (AccountStore, Account) throws -> Void
    ) -> Step {
        Step(
            name: "\(name) of an account",
            apply: { facts in
                guard facts["account \(email)"] != nil else { return nil }
                var facts = facts
                change(&facts)
                return facts
            }
        ) { world in
            try world.outcome { directory in
                guard let account = try directory.account(email: email) else { throw DirectoryError.missing("it") }
                try body(directory, account)
            }
        }
    }

    static func setPassword(_ email: String) -> Step {
        account(email, "password") {
            $0["password \(email)"] = "second"
            $0["sessions \(email)"] = "0"
        } _: {
            try $0.setPassword("second password", of: $1.id)
        }
    }

    static func signIn(_ email: String) -> Step {
        account(email, "session") {
            $0["sessions \(email)"] = "1"
        } _: {
            let session = Session(
                id: Session.ID(UInt128(email.utf8.reduce(7) { $0 &* 31 &+ UInt64($1) })),
                secretHash: [UInt8](repeating: 9, count: 32),
                account: $1.id,
                home: try DiskWorld.home(),
                kind: .kept,
                created: DiskWorld.now
            )
            try $0.addSession(session)
        }
    }

    static func disable(_ email: String) -> Step {
        account(email, "end") {
            $0["account \(email)"] = "disabled"
            $0["password \(email)"] = nil
            $0["sessions \(email)"] = "0"
        } _: {
            try $0.setDisabled(true, of: $1.id)
        }
    }

    static func signOut(_ email: String) -> Step {
        account(email, "sign-out") {
            $0["sessions \(email)"] = "0"
        } _: {
            try $0.revokeSessions(of: $1.id, in: nil)
        }
    }

    static func name(_ email: String, _ given: String) -> Step {
        account(email, "name") {
            $0["name \(email)"] = given
        } _: { directory, account in
            var name = PersonName()
            name.given = given
            try directory.setName(name, of: account.id)
        }
    }

    static func revokeToken(_ name: String) -> Step {
        Step(
            name: "revoke token",
            apply: { $0["token \(name)"] == "there" ? $0.merging(["token \(name)": "revoked"]) { $1 } : nil }
        ) { world in
            try world.outcome { directory in
                for token in try directory.apiTokens() where token.name == name {
                    try directory.revokeAPIToken(token.id)
                }
            }
        }
    }

    package static func addToken(_ name: String) -> Step {
        Step(name: "add token", apply: { $0.merging(["token \(name)": "there"]) { $1 } }) { world in
            try world.outcome {
                let home = try DiskWorld.home()
                try $0.ensureContainer(home.container)
                _ = try $0.addAPIToken(in: home, name: name, notes: "", callbackURL: nil, allowedOrigins: [])
            }
        }
    }
}

/// Schema changes of the command line beside a running relay, and the relay's removal of unused assets.
extension Script {
    private static func schema(_ environment: Records.Environment, of facts: Facts) -> [String] {
        (facts["schema \(environment.rawValue)"] ?? "").split(separator: " ").map(String.init)
    }

    /// Adds a field to the development schema.
    static func importSchema(_ field: String) -> Step {
        Step(
            name: "import schema \(field)",
            apply: { facts in
                let fields = Set(schema(.development, of: facts) + [field]).sorted().joined(separator: " ")
                return facts.merging(["schema development": fields]) { $1 }
            }
        ) { world in
            try world.outcome { _ in
                try world.schemas.change(.development) { old in
                    var new = old
                    new.types["Imported", default: RecordType()].fields[field] = .init(.scalar(.int64))
                    return (new, ())
                }
            }
        }
    }

    static func promote(_ name: String) -> Step {
        Step(
            name: "promote schema \(name)",
            apply: { facts in
                facts["schema development"].map { fields in facts.merging(["schema production": fields]) { $1 } }
            }
        ) { world in
            try world.outcome { _ in
                let development = try world.schemas.schema(of: .development)
                try world.schemas.change(.production) { production in
                    let change = SchemaChange(promoting: development, over: production)
                    return (change.isAllowed ? change.result : nil, ())
                }
            }
        }
    }

    /// Removes all unused assets, even new ones.
    static func clearAssets() -> Step {
        Step(name: "clear assets", apply: { $0 }) { world in
            do throws(RelayError) {
                _ = try await world.stores.removeUnusedAssets(before: Timestamp(milliseconds: 1 << 52))
                return .done
            } catch {
                return .unknown(code: error.code.rawValue, reason: error.reason)
            }
        }
    }
}
