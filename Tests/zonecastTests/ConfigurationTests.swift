import Foundation
import RelayServer
import TestSupport
import Testing

@testable import zonecast

@Suite(.ownThread) struct ConfigurationTests {
    let folder = ScratchFolder()

    private func file(_ text: String) throws -> String {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let path = folder.path + "/zonecast.yaml"
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        return path
    }

    private func read(_ text: String, flags: [String: String] = [:], environment: [String: String] = [:]) async throws
        -> ConfigurationReading
    {
        try await ConfigurationReading(flags: flags, environment: environment, file: try file(text))
    }

    @Test func configurationFaultsAreReportedAsJSON() throws {
        struct Answer: Decodable { var faults: [String]? }
        let path = try file("lisen: 127.0.0.1:1\nlimits.connections: many\n")
        let checked = try Command.run(["config", "check", path, "--json"])
        #expect(checked.status == 2 && checked.errors.contains("lisen"))
        #expect(try checked.json(Answer.self).faults?.count == 2, "\(checked.output)")
    }

    @Test func flagsTakePrecedenceOverTheEnvironmentAndTheFile() async throws {
        let text = """
            # A comment, and a value with a hash in quotes.
            listen: 127.0.0.1:1
            data: "/tmp/a#b"   # where
            log:
              level: debug
            limits:
              connections: 5
              head-time: 7
            trusted-proxies:
              - 10.0.0.0/8
              - 127.0.0.1
            """
        let environment = ["ZONECAST_LIMITS_CONNECTIONS": "6", "ZONECAST_LISTEN": "127.0.0.1:2", "PATH": "/bin"]
        let reading = try await read(text, flags: ["listen": "[::1]:3"], environment: environment)
        let expected = [
            "listen": "[::1]:3", "data": "/tmp/a#b", "limits.connections": "6", "limits.head-time": "7",
            "log.level": "debug",
            "trusted-proxies": "10.0.0.0/8,127.0.0.1",
        ]
        for (name, value) in expected { #expect(try written(name, reading) == value, "\(name)") }
        #expect(reading.origins["listen"] == .flag)
        #expect(reading.origins["limits.connections"] == .environment)
        #expect(reading.origins["log.level"] == .file(line: 5))
        #expect(reading.origins["tokens.grace"] == .standard)
    }

    @Test(
        "origins, hosts and contacts are kept as browsers and services present them",
        arguments: [
            ("sign-in.allowed-origins", "HTTPS://App.Example:443", "https://app.example"),
            ("sign-in.allowed-origins", "https://b\u{FC}cher.example/", "https://xn--bcher-kva.example"),
            ("sign-in.allowed-origins", "http://[2001:DB8:0::1]:080", "http://[2001:db8::1]"),
            (
                "sign-in.allowed-origins", "http://a.example:8080, https://a.example:",
                "http://a.example:8080,https://a.example"
            ),
            ("sign-in.allowed-origins", "https://a.example, https://A.example", "https://a.example"),
            ("sign-in.allowed-origins", "capacitor://localhost", "capacitor://localhost"),
            ("public-url", "https://Sync.B\u{FC}cher.example:443/Notes/", "https://sync.xn--bcher-kva.example/Notes"),
            ("public-url", "http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("push.hosts", "Push.B\u{FC}cher.example, *.PUSH.example.", "push.xn--bcher-kva.example,*.push.example"),
            ("push.hosts", "[2001:DB8::0:1],192.0.2.1", "[2001:db8::1],192.0.2.1"),
            ("push.contact", "MAILTO:Ops@B\u{FC}cher.Example", "mailto:Ops@xn--bcher-kva.example"),
            ("push.contact", "HTTPS://Example.org:443/Contact?a=b", "https://example.org/Contact?a=b"),
        ]
    )
    func normalizedSettings(key: String, written: String, kept: String) async throws {
        let reading = try await read("\(key): \"\(written)\"\n")
        #expect(try self.written(key, reading) == kept)
    }

    @Test(
        "a setting that could never match is refused with the reason",
        arguments: [
            ("sign-in.allowed-origins", "https://*.example.org", "star"), ("sign-in.allowed-origins", "*", "scheme"),
            ("sign-in.allowed-origins", "app.example", "scheme"),
            ("sign-in.allowed-origins", "https://a.example/app", "path"),
            ("sign-in.allowed-origins", "https://a.example, file:///x", "file"),
            ("sign-in.allowed-origins", "null", "scheme"),
            ("sign-in.allowed-origins", "https://a.example:99999", "port"),
            ("sign-in.allowed-origins", "wss://a.example", "https"),
            ("sign-in.allowed-origins", "https://ada@a.example", "user"),
            ("sign-in.allowed-origins", "https://a..example", "host"),
            ("sign-in.allowed-origins", "https://[::1", "host"), ("sign-in.allowed-origins", "https://10.0.1", "host"),
            ("push.hosts", "https://push.example", "scheme"), ("push.hosts", "push.example:8443", "port"),
            ("push.hosts", "*", "star"), ("push.hosts", "push.*.example", "star"),
            ("push.hosts", ".push.example", "star"),
            ("push.hosts", "*.192.0.2.1", "star"), ("push.hosts", "ntfy.sh, a b.example", "host"),
            ("push.contact", "mailto:ops@localhost", "reach"), ("push.contact", "https://localhost:8080", "reach"),
            ("push.contact", "mailto:<ops@example.org>", "brackets"),
            ("push.contact", "mailto: ops@example.org", "blanks"),
            ("push.contact", "mailto:ops@example.org ", "blanks"),
            ("push.contact", "ops@example.org", "mailto:ops@example.org"),
            ("push.contact", "http://example.org", "https"), ("push.contact", "mailto:ops", "address"),
            ("push.contact", "https://", "host"), ("push.contact", "mailto:ops@box.localdomain", "reach"),
            ("push.contact", "mailto:a@example.org,b@example.org", "one"),
            ("push.contact", "https://127.0.0.1/", "reach"),
            ("push.contact", "https://[::1]/", "brackets"), ("push.contact", "mailto:\u{FC}@example.org", "ASCII"),
            ("push.contact", "mailto:ops@relay.local", "reach"), ("push.contact", "https://ops@example.org", "host"),
            ("trusted-proxies", "127.0.0.1, 10.0.0.5/8", "10.0.0.5/8 names one host of a range. Write 10.0.0.0/8."),
        ]
    )
    func refusedSettings(key: String, written: String, reason: String) throws {
        let checked = try Command.run(["config", "check", try file("\(key): \"\(written)\"\n")])
        #expect(checked.status == 2 && checked.errors.contains(key), "\(checked.errors)")
        #expect(checked.errors.contains(reason), "\(checked.errors)")
    }

    /// The horizon is at least 90 days, or 0 for no limit.
    @Test(arguments: [(0, true), (1, false), (89, false), (90, true), (36_500, true), (36_501, false)])
    func theTombstoneHorizonIsAtLeast90Days(days: Int, isAccepted: Bool) async throws {
        let path = try file("tombstones.horizon: \(days)\n")
        let checked = try Command.run(["config", "check", path])
        #expect((checked.status == 0) == isAccepted, "\(checked.output)\(checked.errors)")
        if !isAccepted { #expect(checked.errors.contains("0 or a whole number from 90 to 36500")) }
    }

    @Test(arguments: ["\r\n", "\r", "\n"]) func allLineEndingsAreAccepted(end: String) async throws {
        let text = ["# mine", "listen: 127.0.0.1:1", "log:", "  level: debug", ""].joined(separator: end)
        let reading = try await read(text)
        #expect(try written("log.level", reading) == "debug")
        #expect(reading.origins["log.level"] == .file(line: 4))
        let failure = await #expect(throws: CommandFailure.self) { try await read(text + "listn: x" + end) }
        #expect(failure?.description.contains("line 5: \"listn\" is not a key") == true)
    }

    @Test(
        "every value is read back as it was written",
        arguments: [
            "*.lan", "&a", "!a", "%a", "@a", "`a`", "|", ">", "- a", "-", "? a", "?", ":", "a: b", "a:", "a #b", "#",
            "~", "null",
            "Null", "true", "no", "it's", "\"", "'", "\\", "\\n", "a\"b'c", "{a}", "[a]", "a,b", " a ", "\t", "a\tb",
            "=", "<<", "...",
            "---", "1e3", "0x1F", "007", "1_000", "2024-01-01", "b\u{FC}cher", "\u{2028}", "\u{85}", "a\u{FEFF}",
            "\u{7F}a", "",
        ]
    )
    func writtenValues(value: String) async throws {
        let text = "tls-cert: \(ConfigurationText.written(value))\ntls-key: x\n"
        guard !value.isEmpty else {
            #expect(ConfigurationText.written(value) == "\"\"")
            return
        }
        #expect(try await written("tls-cert", read(text)) == value, "\(text)")
    }

    @Test func anEditKeepsTheLineEndings() {
        var edit = ConfigurationEdit("listen: a\r\n# mine\r\n")
        edit.set("listen", to: "127.0.0.1:1")
        edit.set("dev", to: "true")
        #expect(edit.text == "listen: 127.0.0.1:1\r\n# mine\r\ndev: true\r\n")
    }

    @Test func devHasNoRateLimitsUnlessTheyAreConfigured() async throws {
        func values(_ text: String) async throws -> [String] {
            let reading = try await read(text)
            return try ["dev", "limits.requests-per-second", "limits.request-burst"].map { try written($0, reading) }
        }
        #expect(try await values("dev: true\n") == ["true", "0", "0"])
        #expect(try await values("dev: true\nlimits:\n  requests-per-second: 3\n") == ["true", "3", "15"])
        #expect(try await values("dev: false\n") == ["false", "40", "200"])
        #expect(try await values("limits:\n  requests-per-second: 7\n  request-burst: 9\n") == ["false", "7", "9"])
    }

    @Test(arguments: [(20_000, 16_180), (100_000, 30_000), (Int.max, 30_000), (4_096, 10_000), (1_024, 10_000)])
    func theConnectionLimitOfDevFollowsTheDescriptorLimit(descriptors: Int, connections: Int) {
        #expect(ServeSettings(isDev: true, descriptors: descriptors).server.limits.connections == connections)
        #expect(ServeSettings(isDev: false, descriptors: descriptors).server.limits.connections == 10_000)
    }

    /// `config show` writes a value in the form in which the file may contain it.
    @Test func aWrittenValueIsReadBack() async throws {
        for place in [
            "/srv/a", "/srv/with a space", #"/srv/a "quoted" one"#, "/srv/it's", #"/srv/both ' and ""#, #"C:\d"#,
        ] {
            let text = "data: \(ConfigurationText.written(place))\ndev: true\n"
            #expect(try await written("data", read(text)) == place, "\(text)")
        }
    }

    private func written(_ name: String, _ reading: ConfigurationReading) throws -> String {
        try #require(ConfigurationKeys.all.first { $0.name == name }).read(reading.settings)
    }

    /// Sizes and durations may have a unit; the setting keeps its own.
    @Test(arguments: [
        ("quota.private", "5GB", "5000000000"), ("quota.private", "1 GiB", "1073741824"), ("quota.private", "7", "7"),
        ("tokens.lifetime", "30m", "1800"), ("tokens.kept-lifetime", "14d", "1209600"), ("tokens.grace", "1h", "3600"),
        ("tokens.lifetime", "90 seconds", "90"),
    ])
    func unitsAreAccepted(key: String, written: String, kept: String) async throws {
        #expect(try self.written(key, try await read("\(key): \(written)\n")) == kept)
    }

    @Test(arguments: [
        ("quota.private", "5 apples"), ("quota.private", "-1GB"), ("tokens.lifetime", "1s"),
        ("tokens.lifetime", "9999999w"),
        ("tokens.lifetime", "5GB"), ("limits.connections", "5GB"),
    ])
    func wrongUnitsAreRefused(key: String, written: String) async throws {
        let failure = await #expect(throws: CommandFailure.self) { try await read("\(key): \(written)\n") }
        #expect(failure?.exit == .usage && failure?.description.contains("is not a whole number") == true)
    }

    @Test(arguments: [
        ("90d", 7_776_000), ("0", 0), ("2w", 1_209_600), ("90s", 90), ("5", nil), ("d", nil), ("-1d", nil),
    ])
    func durationsOfOptionsHaveUnits(text: String, seconds: Int?) {
        #expect(CommandDuration(argument: text)?.seconds == seconds)
    }

    @Test(arguments: [
        ("5", 5), ("0.5", 0.5), ("500ms", 0.5), ("1.5s", 1.5), ("90 s", 90), ("2m", 120), ("x", nil), ("-1", nil),
        ("nan", nil), ("5GB", nil), ("", nil),
    ])
    func secondsMayHaveAUnit(text: String, seconds: Double?) {
        #expect(Seconds(argument: text)?.value == seconds)
    }

    // MARK: config set

    @Test func aKeyIsSetAndTheRestOfTheFileStays() throws {
        let path = try file("# The relay\nlisten: 127.0.0.1:0  # any port\ndata: \(folder.path)/data\n")
        struct Answer: Decodable { var value: String, isChanged: Bool, needsRestart: Bool }
        func set(_ arguments: String...) throws -> Command {
            try Command.run(["config", "set", "--config", path] + arguments)
        }
        let text = { try String(contentsOfFile: path, encoding: .utf8) }
        let made = try set("quota.private", "6GB")
        #expect(made.status == 0, "\(made.errors)")
        #expect(made.output.contains("quota.private  6000000000 bytes") && made.output.contains("zonecast serve"))
        #expect(
            try text()
                == "# The relay\nlisten: 127.0.0.1:0  # any port\ndata: \(folder.path)/data\nquota.private: 6000000000\n"
        )
        let same = try set("quota.private", "6000MB")
        #expect(same.status == 0 && same.output.contains("no restart is needed"), "\(same.output)\(same.errors)")
        let relay = try RelayProcess(folder: folder.path + "/data")
        let running = try set("tokens.lifetime", "45m", "--json").json(Answer.self)
        #expect(running.value == "2700" && running.isChanged && running.needsRestart)
        #expect(try set("listen", "127.0.0.1:1").output.contains("restart the relay to apply it"))
        #expect(try text().contains("listen: 127.0.0.1:1  # any port\n"), "the comment stays")
        #expect(relay.stop().status == 0)
        let before = try text()
        for (wrong, words) in [
            (["quota.private", "5 apples"], "is not a whole number"),
            (["quota.privat", "1"], "Did you mean \"quota.private\"?"),
            (["trusted-proxies", "10.0.0.5/8"], "10.0.0.0/8"), (["tls-cert", "/none.pem"], "tls-key"),
            (["listen"], "--default"),
        ] {
            let refused = try Command.run(["config", "set", "--config", path] + wrong)
            #expect(refused.status != 0 && refused.errors.contains(words), "\(refused.errors)")
        }
        #expect(try text() == before, "a refused value changes nothing")
        #expect(try set("quota.private", "--default").status == 0)
        #expect(try !text().contains("quota.private"))
    }

    @Test(arguments: [
        ("a: 1\n", "line 1: \"a\" is not a key"),
        ("listen: x\nstorag:\n  url: y\n", "line 3: \"storag.url\" is not a key"),
        (
            "# x\n\nlimits:\n  conections: 1\n",
            "line 4: \"limits.conections\" is not a key. Did you mean \"limits.connections\"?"
        ),
        (
            "limits:\n  connections: many\n",
            "line 2, limits.connections: \"many\" is not a whole number from 1 to 1000000"
        ),
        ("limits:\n  connections: 0\n", "line 2, limits.connections"),
        ("data: a\ndata: b\n", "line 2: \"data\" occurs twice"),
        ("data: ~/relay\n", "line 1, data: \"~/relay\" is not the path of a folder, without ~"),
        ("limits: {connections: 1}\n", "line 1: write one"),
        ("just words\n", "line 1: write one"),
        ("listen: nowhere\n", "line 1, listen: \"nowhere\" is not an address and a port"),
        ("limits:\n", "line 1: \"limits\" is not a key"),
        ("traces:\n  endpoint: http://127.0.0.1:99999/v1/traces\n", "line 2, traces.endpoint"),
        ("traces:\n  endpoint: http://127.0.0.1:0/v1/traces\n", "line 2, traces.endpoint"),
        ("alerts:\n  webhook: http://127.0.0.1:65536/\n", "line 2, alerts.webhook"),
        ("alerts:\n  webhook: https://[::1]:99999/t\n", "line 2, alerts.webhook"),
        ("public-url: https://a.example:99999\n", "line 1, public-url"),
    ])
    func aFaultIsReportedWithItsLine(text: String, message: String) async throws {
        let failure = await #expect(throws: CommandFailure.self) { try await read(text) }
        #expect(failure?.exit == .usage)
        #expect(failure?.description.contains("zonecast.yaml " + message) == true, "\(failure?.description ?? "")")
    }

    @Test(arguments: [
        ("listen: \"abc\n", 1, "while scanning a quoted scalar found unexpected end of stream"),
        ("data: x\nlisten: [a, b\n", 2, "while parsing a flow sequence did not find expected ',' or ']'"),
        ("# x\nlisten: @x\n", 2, "while scanning for the next token found character that cannot start any token"),
        ("listen: a\n  data: b\n", 2, "mapping values are not allowed in this context"),
        ("log:\n  level: info\n format: json\n", 3, "while parsing a block mapping did not find expected key"),
        ("listen: *a\n", 1, "found undefined alias"),
    ])
    func invalidYAMLIsReportedWithItsLine(text: String, line: Int, reason: String) async throws {
        let failure = await #expect(throws: CommandFailure.self) { try await read(text) }
        let told = "zonecast.yaml line \(line): this is not YAML: \(reason). Write lines like  listen: 127.0.0.1:8080"
        #expect(failure?.description == told)
    }

    @Test(arguments: [("/nothing/here.yaml", "No such file or directory"), ("/", "Is a directory")])
    func anUnreadableFileIsReportedWithTheReason(path: String, reason: String) async throws {
        let failure = await #expect(throws: CommandFailure.self) {
            _ = try await ConfigurationReading(flags: [:], environment: [:], file: path)
        }
        #expect(failure?.description.hasPrefix("The configuration \(path) cannot be read: \(reason).") == true)
    }

    @Test func aMistypedEnvironmentVariableIsReportedAndUnrelatedOnesAreIgnored() async throws {
        let failure = await #expect(throws: CommandFailure.self) {
            try await read("dev: true\n", environment: ["ZONECAST_LISTENN": "x"])
        }
        #expect(failure?.description.contains("Did you mean \"ZONECAST_LISTEN\"?") == true)
        _ = try await read("dev: true\n", environment: ["ZONECAST_SOMETHING_ELSE_ENTIRELY": "x"])
    }

    @Test(arguments: [
        ("dev: true\npublic-url: https://sync.example.org\n", true),
        ("dev: true\npublic-url: http://192.168.1.7:8080\n", true),
        ("dev: true\npublic-url: https://localhost:8443\n", false),
        ("dev: true\npublic-url: http://[::1]:8080\n", false), ("dev: true\n", false),
        ("public-url: https://sync.example.org\n", false),
    ])
    func devWithAPublicAddressIsWarnedAbout(text: String, isWarned: Bool) async throws {
        let settings = try await read(text).settings
        let warning = settings.warning
        #expect((warning?.contains("public-url") == true) == isWarned)
        #expect((warning == nil) != isWarned)
        // A public https address is in use by other people, so `serve` refuses dev with it.
        let isRefused = isWarned && text.contains("https:")
        #expect((try? settings.checkStart()) == nil ? isRefused : !isRefused, "\(text)")
    }

    @Test func everyKeyAcceptsItsDefaultAndRefusesInvalidValues() {
        let names = ConfigurationKeys.all.map(\.name)
        #expect(Set(names).count == names.count)
        for key in ConfigurationKeys.all {
            var settings = ServeSettings()
            let standard = key.read(settings)
            if !standard.isEmpty {
                #expect(key.write(&settings, standard), "\(key.name) does not take \(standard)")
                #expect(key.read(settings) == standard, "\(key.name)")
            }
            #expect(key.meaning.hasSuffix("."), "\(key.name)")
            if !["data", "tls-cert", "tls-key"].contains(key.name) {
                #expect(!key.write(&settings, "no such value"), "\(key.name)")
            }
        }
    }

    /// The reference file parses, and with every # removed it states the defaults.
    @Test func theReferenceFileIsValidAndStatesTheDefaults() async throws {
        let reading = try await read(ConfigurationText.reference)
        #expect(reading.origins.values.allSatisfy { $0 == .standard })
        let lines = ConfigurationText.reference.split(separator: "\n", omittingEmptySubsequences: false)
        let open = lines.map { $0.hasPrefix("#") && !$0.hasPrefix("# ") ? String($0.dropFirst()) : String($0) }
            .filter { !$0.hasSuffix(": \"\"") }
        let all = try await read(open.joined(separator: "\n"))
        let standard = ServeSettings()
        for key in ConfigurationKeys.all where !key.read(standard).isEmpty {
            #expect(key.read(all.settings) == key.read(standard), "\(key.name)")
            #expect(all.origins[key.name] != .standard, "\(key.name)")
        }
        #expect(try await written("limits.body", read("limits.body: 4096\n")) == "4096")
    }

    @Test func originsAreShownWithTheFlag() throws {
        let path = try file("listen: 127.0.0.1:1\n")
        let shown = try Command.run(["config", "show", "--origin", "--config", path])
        #expect(shown.output.contains("FROM") && shown.output.contains("file line 1"))
        #expect(!(try Command.run(["config", "show", "--config", path]).output.contains("FROM")))
        #expect(try Command.run(["config", "reference", "--yaml"]).output.hasPrefix("# zonecast: every setting"))
    }

    @Test(arguments: [
        ("127.0.0.1:8080", "127.0.0.1", 8080), ("[::1]:0", "::1", 0), ("localhost:65535", "localhost", 65_535),
    ])
    func addresses(text: String, host: String, port: Int) {
        #expect(ListenAddress(text) == ListenAddress(host: host, port: port))
        #expect(ListenAddress(text)?.description == text)
    }

    @Test func aStarListensOnAllAddresses() {
        #expect(ListenAddress("*:8080") == ListenAddress(host: "0.0.0.0", port: 8080))
    }

    @Test(arguments: ["", ":8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "::1:80", "host:-1"])
    func invalidAddresses(text: String) {
        #expect(ListenAddress(text) == nil)
    }
}
