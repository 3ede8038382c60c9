import Crypto
import Foundation
import TestSupport
import Testing

/// The commands as a script calls them, on a folder that no relay uses.
@Suite(.ownThread, .serialized) struct CommandTests {
    let folder = ScratchFolder()

    private func zonecast(_ arguments: String..., input: String = "") throws -> Command {
        try Command.run(arguments + ["--data", folder.path], input: input)
    }

    private let home = ["--container", "iCloud.org.example.notes", "--environment", "development"]

    @Test func containersRoundTrip() throws {
        let missing = try zonecast("container", "list")
        #expect(missing.status == 1)
        #expect(missing.errors.contains("zonecast container create"))
        #expect(!FileManager.default.fileExists(atPath: folder.path), "list must not create the folder")

        #expect(try zonecast("container", "create", "iCloud.org.example.notes", "--json").status == 0)
        #expect(try zonecast("container", "create", "iCloud.org.example.notes").status == 5)
        #expect(try zonecast("container", "create", "no/name").status == 2)
        struct List: Decodable {
            struct Row: Decodable { var container: String }
            var containers: [Row]
        }
        let list = try zonecast("container", "list", "--json").json(List.self)
        #expect(list.containers.map(\.container) == ["iCloud.org.example.notes"])
    }

    @Test func theUsageOfAContainerIsShown() throws {
        struct Usage: Decodable {
            var users: Int
            var publicRecordBytes: Int
            var owners: [[String: String]]
        }
        _ = try zonecast("container", "create", "iCloud.org.example.notes")
        let usage = try zonecast("container", "show", "iCloud.org.example.notes", "--json").json(Usage.self)
        #expect(usage.users == 0 && usage.publicRecordBytes == 0 && usage.owners.isEmpty)
        let text = try zonecast("container", "show", "iCloud.org.example.notes", "--environment", "production")
        #expect(text.status == 0 && text.output.contains("public records   0 bytes"))
        #expect(try zonecast("container", "show", "iCloud.org.example.other").status == 1)
        #expect(try zonecast("container", "show", "iCloud.org.example.notes", "--users", "-1").status == 2)
    }

    @Test func tokensRoundTrip() throws {
        struct Token: Decodable { var apiToken: String, id: String }
        struct List: Decodable {
            struct Row: Decodable { var id: String, environment: String, allowedOrigins: [String], revoked: String? }
            var apiTokens: [Row]
        }
        let early = try Command.run(["token", "create", "--data", folder.path] + home)
        #expect(early.status == 1)
        _ = try zonecast("container", "create", "iCloud.org.example.notes")
        let create = ["token", "create", "--json", "--allowed-origin", "https://a.example", "--data", folder.path]
        let token = try Command.run(create + home).json(Token.self)
        #expect(token.apiToken.count == 64)
        #expect(token.apiToken.allSatisfy { $0.isHexDigit && !$0.isUppercase })
        let listed = try zonecast("token", "list", "--json")
        #expect(!listed.output.contains(token.apiToken))
        #expect(try listed.json(List.self).apiTokens.map(\.allowedOrigins) == [["https://a.example"]])
        #expect(try zonecast("token", "revoke", token.id, "--json").status == 0)
        #expect(try zonecast("token", "list", "--json").json(List.self).apiTokens.allSatisfy { $0.revoked != nil })
        #expect(try zonecast("token", "revoke", "0123456789abcdef").status == 1)
        for (written, origin) in [
            ("HTTPS://App.Example:443/", "https://app.example"),
            ("https://b\u{FC}cher.example:8443", "https://xn--bcher-kva.example:8443"),
            ("http://[::0:1]:5173", "http://[::1]:5173"),
        ] {
            let made = try Command.run(create.map { $0 == "https://a.example" ? written : $0 } + home)
            #expect(made.status == 0, "\(made.errors)")
            #expect(try zonecast("token", "list", "--json").json(List.self).apiTokens.last?.allowedOrigins == [origin])
        }
        for wrong in [
            "https://*.example", "file:///a", "https://a.example:0", "ws://a.example", "https://a b.example", "null",
        ] {
            let refused = try Command.run(create.map { $0 == "https://a.example" ? wrong : $0 } + home)
            #expect(refused.status == 2 && refused.errors.contains("is not an origin."), "\(wrong)")
        }
        let pathInOrigin = ["token", "create", "--allowed-origin", "https://a.example/x", "--data", folder.path]
        #expect(try Command.run(pathInOrigin + home).status == 2)
        #expect(try zonecast("token", "create").status == 2)
    }

    @Test func aTokenStoresTheCallbackURLOfSignIns() throws {
        struct List: Decodable {
            struct Row: Decodable { var callbackURL: String? }
            var apiTokens: [Row]
        }
        _ = try zonecast("container", "create", "iCloud.org.example.notes")
        func create(_ callback: String) throws -> Command {
            try Command.run(["token", "create", "--callback-url", callback, "--data", folder.path] + home)
        }
        #expect(try create("cloudkit-icloud.org.example.notes://done").status == 0)
        for bad in ["javascript:alert(1)", "data:text/html,x", "app.example/done", "https://a b"] {
            #expect(try create(bad).status == 2, "\(bad)")
        }
        let listed = try zonecast("token", "list", "--json").json(List.self).apiTokens.map(\.callbackURL)
        #expect(listed == ["cloudkit-icloud.org.example.notes://done"])
    }

    @Test func issuersRoundTrip() throws {
        struct List: Decodable {
            struct Row: Decodable { var issuer: String, algorithms: [String], claims: [String: String] }
            var issuers: [Row]
        }
        struct Person: Decodable { var subject: String, email: String? }
        _ = try zonecast("container", "create", "iCloud.org.example.notes")
        let secret = Data("a secret that is long enough for HS256".utf8)
        let file = folder.path + "/secret"
        try secret.write(to: URL(fileURLWithPath: file))
        let add = ["user", "issuer", "create", "--issuer", "https://id.example", "--audience", "notes"]
        let place = ["--container", "iCloud.org.example.notes", "--data", folder.path]
        for wrong in [
            [], ["--keys-url", "http://id.example/keys"], ["--keys-url", "https://id.example", "--algorithm", "HS256"],
            ["--keys-file", file, "--keys-url", "https://id.example/keys"],
            ["--keys-file", file, "--algorithm", "none"],
            ["--keys-file", file, "--claim", "shoe=size"],
        ] {
            #expect(try Command.run(add + place + wrong).status == 2, "\(wrong)")
        }
        #expect(try Command.run(add + place + ["--keys-file", folder.path + "/none"]).status == 1)
        let good = ["--keys-file", file, "--algorithm", "HS256", "--claim", "email=mail", "--trust-contacts"]
        #expect(try Command.run(add + place + good).status == 0)
        let listed = try zonecast("user", "issuer", "list", "--json").json(List.self).issuers
        #expect(listed.map(\.algorithms) == [["HS256"]])
        #expect(listed.first?.claims == ["email": "mail"])

        func text(_ bytes: some Sequence<UInt8>) -> String {
            Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing(
                "=",
                with: ""
            )
        }
        let claims = #"{"iss":"https://id.example","aud":"notes","sub":"7","exp":99999999999,"mail":"a@b.example"}"#
        let message = text(#"{"alg":"HS256"}"#.utf8) + "." + text(claims.utf8)
        let tag = HMAC<SHA256>.authenticationCode(for: Data(message.utf8), using: SymmetricKey(data: secret))
        let check = ["user", "issuer", "check", "--json"] + place
        let person = try Command.run(check, input: message + "." + text(tag) + "\n").json(Person.self)
        #expect(person.subject == "7" && person.email == "a@b.example")
        let refused = try Command.run(check, input: message + ".AAAA\n")
        #expect(refused.status == 1)
        #expect(refused.errors.contains("Its signature was not made with a key of the issuer."))
        #expect(try Command.run(["user", "issuer", "delete", "--issuer", "https://id.example"] + place).status == 0)
        #expect(try Command.run(["user", "issuer", "delete", "--issuer", "https://id.example"] + place).status == 1)
    }

    @Test func aUsersNameAndPhoneNumberCanBeSetAndRemoved() throws {
        struct List: Decodable {
            struct Row: Decodable { var givenName: String?, familyName: String?, phone: String? }
            var users: [Row]
        }
        let add = ["--given-name", "Ada", "--phone", "+49 30 1234567", "--password-stdin", "--data", folder.path]
        #expect(try Command.run(["user", "create", "ada@example.org"] + add, input: "correct horse\n").status == 0)
        var row = try zonecast("user", "list", "--json").json(List.self).users.first
        #expect(row?.givenName == "Ada" && row?.phone == "+49301234567")
        #expect(try zonecast("user", "edit", "ada@example.org").status == 2)
        #expect(try zonecast("user", "edit", "ada@example.org", "--phone", "soon").status == 2)
        _ = try zonecast(
            "user",
            "edit",
            "ada@example.org",
            "--given-name",
            "",
            "--family-name",
            "Byron",
            "--phone",
            ""
        )
        row = try zonecast("user", "list", "--json").json(List.self).users.first
        #expect(row?.givenName == nil && row?.familyName == "Byron" && row?.phone == nil)
    }

    @Test func usersRoundTrip() throws {
        struct SignIn: Decodable { var ckWebAuthToken: String, userRecordName: String }
        struct List: Decodable {
            struct Row: Decodable { var email: String?, disabled: Bool }
            var users: [Row]
        }
        _ = try zonecast("container", "create", "iCloud.org.example.notes")
        let email = "alice@example.org"
        let added = try zonecast("user", "create", email, "--password-stdin", "--json", input: "correct horse\n")
        #expect(try added.json([String: String].self) == ["email": email])
        #expect(try zonecast("user", "create", email, "--password-stdin", input: "another one").status == 5)
        #expect(try zonecast("user", "create", "b@example.org", "--password-stdin", input: "short").status == 2)
        #expect(try zonecast("user", "create", "noaddress", "--password-stdin", input: "long enough").status == 2)
        // Without a terminal and without --password-stdin the command must not hang.
        #expect(try zonecast("user", "create", "b@example.org").status == 2)

        let signIn = ["user", "sign-in", email, "--json", "--data", folder.path] + home
        let first = try Command.run(signIn).json(SignIn.self)
        let second = try Command.run(signIn).json(SignIn.self)
        #expect(first.userRecordName == second.userRecordName)
        #expect(first.ckWebAuthToken != second.ckWebAuthToken)
        #expect(first.userRecordName.hasPrefix("_") && first.userRecordName.count == 33)

        #expect(try zonecast("user", "password", email, "--password-stdin", input: "battery staple").status == 0)
        #expect(try zonecast("user", "disable", email, "--json").status == 0)
        #expect(try zonecast("user", "list", "--json").json(List.self).users.map(\.disabled) == [true])
        #expect(try Command.run(signIn).status == 4)
        #expect(try zonecast("user", "disable", email, "--undo").status == 0)
        #expect(try Command.run(signIn).status == 0)
    }

    @Test func keysRoundTrip() throws {
        _ = try zonecast("container", "create", "iCloud.org.example.notes")
        let file = folder.path + "/key.pem"
        try P256.Signing.PrivateKey().publicKey.pemRepresentation.write(toFile: file, atomically: true, encoding: .utf8)
        let add = ["token", "create", "--kind", "server", "--public-key", file, "--json", "--data", folder.path] + home
        let first = try Command.run(add).json([String: String].self)
        let old = try #require(first["keyID"])
        #expect(old.count == 64)
        #expect(try zonecast("token", "list", "--kind", "server", "--json").output.contains(old))
        // A rotated key belongs to the same user.
        try P256.Signing.PrivateKey().publicKey.pemRepresentation.write(toFile: file, atomically: true, encoding: .utf8)
        let second = try zonecast("token", "rotate", "--kind", "server", old, "--public-key", file, "--json")
            .json([String: String].self)
        let keyID = try #require(second["keyID"])
        #expect(keyID != old && second["userRecordName"] == first["userRecordName"])
        #expect(try zonecast("token", "rotate", "--kind", "server", old, "--public-key", file).status == 1)
        #expect(try zonecast("token", "revoke", "--kind", "server", keyID).status == 0)
        #expect(try zonecast("token", "revoke", "--kind", "server", "none").status == 1)
        try "no key".write(toFile: file, atomically: true, encoding: .utf8)
        let refused = try Command.run(add)
        #expect(refused.status == 2)
        #expect(refused.errors.contains("openssl ec"))
    }

    @Test func helpAndVersionGoToStandardOutput() throws {
        for arguments in [["--help"], ["serve", "--help"], ["--version"]] {
            let answer = try Command.run(arguments)
            #expect(answer.status == 0)
            #expect(!answer.output.isEmpty)
            #expect(answer.errors.isEmpty)
        }
        #expect(try Command.run(["no-such-command"]).status == 2)
    }
}
