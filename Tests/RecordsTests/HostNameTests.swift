import Records
import Testing

@Suite struct HostNameTests {
    @Test(
        "a host has one spelling, that of a browser",
        arguments: [
            ("Example.ORG", "example.org"), ("b\u{FC}cher.example", "xn--bcher-kva.example"),
            ("BU\u{308}CHER.example", "xn--bcher-kva.example"), ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
            ("stra\u{DF}e.example", "xn--strae-oqa.example"), ("\u{FF41}.example", "a.example"),
            ("\u{4F8B}\u{3048}\u{3002}jp", "xn--r8jz45g.jp"), ("\u{2603}.net", "xn--n3h.net"),
            ("a_b.example", "a_b.example"),
            ("example.org.", "example.org."), ("192.0.2.1", "192.0.2.1"), ("[::1]", "[::1]"),
            ("[2001:DB8::0:1]", "[2001:db8::1]"),
            ("[::ffff:192.0.2.1]", "[::ffff:c000:201]"), ("[1:0:0:2:0:0:0:3]", "[1:0:0:2::3]"), ("[::]", "[::]"),
            ("[1:2:3:4:5:6:7:0]", "[1:2:3:4:5:6:7:0]"), ("[0:0:3:4:5:6:7:8]", "[::3:4:5:6:7:8]"),
            ("localhost", "localhost"),
        ]
    )
    func spellings(text: String, host: String) {
        #expect(HostName.ascii(text) == host)
        #expect(HostName.ascii(host) == host)
        #expect(HostName.unicode(text).flatMap { HostName.ascii($0) } == host)
    }

    @Test(
        "a text that names no host is none",
        arguments: [
            "", ".", "a..b", ".a", "a b", "a/b", "a:80", "a@b", "a#b", "a?b", "a%41", "a\\b", "*.a", "xn--a.example",
            "xn--", "1.2.3",
            "1.2.3.256", "0x7f.1", "[::1", "::1", "[::1%25lo]", "[1.2.3.4]", "\u{202E}", "\u{FC} \u{FC}.a",
            String(repeating: "a", count: 64) + ".org", String(repeating: "abcdefg.", count: 40) + "org",
        ]
    )
    func noHosts(text: String) {
        #expect(HostName.ascii(text) == nil)
        #expect(HostName.unicode(text) == nil)
    }

    @Test("an internationalised name is shown in its own letters")
    func letters() {
        #expect(HostName.unicode("XN--BCHER-KVA.example") == "b\u{FC}cher.example")
        #expect(HostName.unicode("Example.org") == "example.org")
    }

    @Test(
        "an origin is what a browser sends",
        arguments: [
            ("HTTPS://A.example:443", "https://a.example"), ("http://a.example:80/", "http://a.example"),
            ("http://a.example:443", "http://a.example:443"), ("https://a.example:", "https://a.example"),
            ("https://b\u{FC}cher.example:8443", "https://xn--bcher-kva.example:8443"),
            ("http://[::0:1]:5173", "http://[::1]:5173"),
            (" https://a.example\n", "https://a.example"), ("tauri://localhost", "tauri://localhost"),
            (
                "moz-extension://0f7c8a4e-0000-4000-8000-000000000000",
                "moz-extension://0f7c8a4e-0000-4000-8000-000000000000"
            ),
        ]
    )
    func origins(text: String, origin: String) {
        #expect(WebOrigin.canonical(text) == origin)
        #expect(WebOrigin.canonical(origin) == origin)
        #expect(WebOrigin.objection(to: text) == nil)
    }

    @Test(
        "an origin that no browser sends is none, and a reason is given",
        arguments: [
            "", "null", "*", "a.example", "//a.example", "https://", "https:a.example", "file:///", "ws://a.example",
            "data://a",
            "https://*.a.example", "https://a.example/b", "https://a.example?b", "https://a.example#b",
            "https://a@b.example",
            "https://a.example:0", "https://a.example:65536", "https://a.example:x", "https://a.example:80:80",
            "https://::1",
            "1https://a.example", "ht tp://a.example",
        ]
    )
    func noOrigins(text: String) {
        #expect(WebOrigin.canonical(text) == nil)
        #expect(WebOrigin.objection(to: text) != nil)
    }

    @Test(
        "a telephone number with its country has one spelling",
        arguments: [
            "+49 30 1234567", "0049 30 1234567", "+49 (0)30 123-45-67", "(+49) 30/123.4567",
            "+49\u{A0}30\u{2011}1234567",
        ]
    )
    func numbers(text: String) {
        #expect(PhoneNumber.canonical(text) == "+49301234567")
        #expect(PhoneNumber.objection(to: text) == nil)
    }
}

@Suite struct PortNumberTests {
    @Test(arguments: [
        "http://127.0.0.1", "http://127.0.0.1:1/", "https://127.0.0.1:65535?a", "http://[::1]", "http://[::1]:8080/a:0",
        "http://name:/", "https://user:99999@name/", "http://name/?at=b:99999", "http://name#:0", "no address",
    ])
    func usable(_ address: String) { #expect(PortNumber.isUsable(in: address)) }

    @Test(arguments: [
        "http://127.0.0.1:0", "http://127.0.0.1:65536/", "https://name:99999?a", "http://[::1]:99999#b",
        "http://127.0.0.1:-1", "http://127.0.0.1:+80", "http://name:99999999999999999999999/", "http://name:8o/",
        "http://user@name:0/",
    ])
    func unusable(_ address: String) { #expect(!PortNumber.isUsable(in: address)) }
}
