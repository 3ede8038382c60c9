import RelayGateways
import Testing

@Suite struct PushContactTests {
    @Test(
        "a contact that services take is kept as a service reads it",
        arguments: [
            ("mailto:ops@example.org", "mailto:ops@example.org"), ("MAILTO:Ops@Example.ORG", "mailto:Ops@example.org"),
            ("mailto:a.b+c@b\u{FC}cher.example", "mailto:a.b+c@xn--bcher-kva.example"),
            ("https://example.org", "https://example.org"),
            ("https://Example.org:8443/Imprint", "https://example.org:8443/Imprint"),
        ]
    )
    func taken(text: String, contact: String) {
        #expect(PushContact.canonical(text) == contact)
        #expect(PushContact.objection(to: text) == nil)
    }

    @Test(
        "a contact that services refuse is refused with the reason",
        arguments: [
            "", "me", "mailto:", "mailto:ops", "mailto:@example.org", "mailto:ops@localhost", "mailto:ops@LOCALHOST.",
            "mailto:ops@box.localhost", "mailto:ops@box.local", "mailto:ops@127.0.0.1", "mailto:ops@[::1]",
            "mailto:<ops@example.org>", "<mailto:ops@example.org>", "mailto: ops@example.org",
            " mailto:ops@example.org",
            "mailto:ops@example.org\n", "mailto:\"ops\"@example.org", "mailto:ops@example.org?subject=x",
            "mailto:a,b@example.org",
            "https://", "https:///", "https://localhost", "https://localhost:8443/x", "https://relay",
            "https://192.0.2.1",
            "https://[2001:db8::1]", "https://exa mple.org", "https://example.org/\u{FC}", "https://a@example.org",
            "https://example.org:0", "http://example.org", "tel:+49301234567",
        ]
    )
    func refused(text: String) {
        #expect(PushContact.canonical(text) == nil)
        #expect(PushContact.objection(to: text) != nil)
    }

    @Test(
        "a host in push.hosts admits every spelling that a device may give",
        arguments: [
            ("Push.B\u{FC}cher.example", "push.xn--bcher-kva.example", true),
            ("push.xn--bcher-kva.example", "PUSH.b\u{FC}cher.example", true),
            ("*.Push.example.", "a.push.example", true), ("*.push.example", "push.example", false),
            ("*.push.example", "a.b.push.EXAMPLE.", true), ("*.push.example", "apush.example", false),
            ("[2001:DB8::0:1]", "2001:db8::1", true), ("192.0.2.1", "192.0.2.1", true),
            ("push.example", "push.example.org", false),
        ]
    )
    func hosts(written: String, named: String, isAdmitted: Bool) throws {
        var settings = PushSettings()
        settings.hosts = [try #require(PushHost.canonical(written))]
        #expect(PushHost.objection(to: written) == nil)
        #expect(settings.admits(host: named) == isAdmitted)
    }

    @Test(
        "a host that no service presents is refused with the reason",
        arguments: [
            "", "*", "*.", "*.192.0.2.1", "*.[::1]", "a.*.example", ".example", "https://push.example",
            "push.example/x",
            "push.example:443", "[::1]:443", "a b", "xn--a.example",
        ]
    )
    func noHosts(text: String) {
        #expect(PushHost.canonical(text) == nil)
        #expect(PushHost.objection(to: text) != nil)
    }
}
