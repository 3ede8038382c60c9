extension SetupFiles {
    /// The systemd unit of a service that runs as user `zonecast` and may write only to the data folder.
    var unit: String {
        """
        [Unit]
        Description=zonecast sync relay
        Documentation=file:/usr/share/doc/zonecast/README.md
        Wants=network-online.target
        After=network-online.target
        # Always restart: by default, systemd gives up after five starts in ten seconds.
        StartLimitIntervalSec=0

        [Service]
        Type=exec
        User=zonecast
        Group=zonecast
        ExecStart=\(Self.argument(program)) serve --config \(Self.argument(configuration))
        # A graceful stop takes up to 12 s (limits.shutdown and 2 s).
        TimeoutStopSec=20
        Restart=on-failure
        RestartSec=1
        # One descriptor per connection (limits.connections), and some for files.
        LimitNOFILE=65536

        UMask=0077
        StateDirectory=zonecast
        StateDirectoryMode=0700
        ReadWritePaths=\(Self.word(data))
        ProtectSystem=strict
        ProtectHome=yes
        PrivateTmp=yes
        PrivateDevices=yes
        ProtectClock=yes
        ProtectControlGroups=yes
        ProtectHostname=yes
        ProtectKernelLogs=yes
        ProtectKernelModules=yes
        ProtectKernelTunables=yes
        ProtectProc=invisible
        ProcSubset=pid
        NoNewPrivileges=yes
        RestrictNamespaces=yes
        RestrictRealtime=yes
        RestrictSUIDSGID=yes
        RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
        LockPersonality=yes
        MemoryDenyWriteExecute=yes
        RemoveIPC=yes
        SystemCallArchitectures=native
        SystemCallFilter=@system-service
        SystemCallFilter=~@privileged @resources
        # The relay raises its soft limit of descriptors to the hard limit.
        SystemCallFilter=setrlimit prlimit64
        SystemCallErrorNumber=EPERM
        # Ports below 1024, for TLS without a proxy.
        AmbientCapabilities=CAP_NET_BIND_SERVICE
        CapabilityBoundingSet=CAP_NET_BIND_SERVICE

        [Install]
        WantedBy=multi-user.target

        """
    }

    /// Returns a path in systemd's syntax: escapes `%`, and quotes paths with spaces or quotes.
    static func word(_ path: String) -> String {
        let text = path.replacing("%", with: "%%")
        guard text.contains(where: { $0.isWhitespace || "\"'\\;".contains($0) }) else { return text }
        return "\"\(text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\""))\""
    }

    /// Returns a path for a systemd command line, where `$` is escaped too.
    private static func argument(_ path: String) -> String { word(path).replacing("$", with: "$$") }
}
