"""What penverbs tells of the device and its traffic: --stats, --trace, the counters of the tree, and --devices."""
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile

LIMIT = 150
MESSAGES, BYTES = 100, 4096  # ibv_rc_pingpong's, each way
RC = {0: "SEND first", 1: "SEND middle", 2: "SEND last", 4: "SEND only", 6: "WRITE first", 7: "WRITE middle", 8: "WRITE last",
      10: "WRITE only", 12: "READ", 13: "answer first", 14: "answer middle", 15: "answer last", 16: "answer only", 17: "ACK",
      18: "atomic ACK", 20: "FETCH_ADD"}
# What stands behind the base transport header (InfiniBand's volume 1, chapter 9): RETH, AETH, both atomic headers, DETH.
OWN = {"WRITE first": 16, "WRITE only": 16, "READ": 16, "answer first": 4, "answer last": 4, "answer only": 4, "ACK": 4,
       "atomic ACK": 12, "FETCH_ADD": 28}


class Wrong(Exception):
    pass


def need(holds, *what):
    if not holds:
        raise Wrong(*what)


def packets(file):
    """Each packet's header fields, checked against the lengths that it and pcap give."""
    data = file.read_bytes()
    need(struct.unpack_from("<IHHIIII", data) == (0xA1B23C4D, 2, 4, 0, 0, 65535, 197), "pcap's head", data[:24])
    at, found = 24, []
    while at < len(data):
        _, _, kept, length = struct.unpack_from("<IIII", data, at)
        body = data[at + 16:at + 16 + kept]
        need(len(body) == kept <= length, "cut in mid-packet", at)
        at += 16 + kept
        _, kind, flags, record, lost, wire = struct.unpack_from(">QBBHHH", body)
        need(kind == 21 and flags == 4 and record == kept and wire == length - 16 and lost == 0, "ERF", body[:16].hex())
        body, length = body[16:], wire
        lanes, next_header, to, words, origin = struct.unpack_from(">BBHHH", body)
        route = 48 if next_header & 3 == 3 else 8
        need(lanes == 0 and next_header & 3 in (2, 3) and (words & 0x7FF) * 4 + 2 == length, "LRH", body[:8].hex(), length)
        gids = ()
        if route == 48:
            first, payload, following, _ = struct.unpack_from(">IHBB", body, 8)
            need(first >> 28 == 6 and following == 0x1B and payload == length - 48 - 2, "GRH", body[8:48].hex(), length)
            gids = (body[16:32], body[32:48])
        opcode, flags, key, qpn, psn = struct.unpack_from(">BBHII", body, route)
        need(key == 0xFFFF and qpn < 1 << 24 and psn < 1 << 24, "BTH", body[route:route + 12].hex())
        name = RC.get(opcode, "UD" if opcode == 0x64 else opcode)
        own = 8 if name == "UD" else OWN.get(name, 0)
        found.append(dict(name=name, qpn=qpn, psn=psn, lids=(origin, to), gids=gids, own=body[route + 12:route + 12 + own],
                          payload=length - route - 12 - own - (flags >> 4 & 3) - 6, start=body[route + 12 + own:]))
    return found


def names(trace):
    counts = {}
    for p in trace:
        counts[p["name"]] = counts.get(p["name"], 0) + 1
    return counts


def table(text):
    rows = re.findall(r"^shm(\d+) +(\d+) (\w+) +0x(\w+) 0x(\w+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+)$", text, re.M)
    keys = "device pid type qpn peer sent sent_bytes received received_bytes rnr retries errors".split()
    return [dict(zip(keys, r)) for r in rows]


def check_stats(penverbs, pair):
    codes, texts = pair(penverbs + ["--stats"], f"ibv_rc_pingpong -d shm0 -g 0 -n {MESSAGES} -s {BYTES}")
    need(codes == [0, 0], codes, texts)
    ends = [table(t) for t in texts]
    need(all(len(e) == 1 for e in ends), texts)
    for e, other in [(ends[0][0], ends[1][0]), (ends[1][0], ends[0][0])]:
        carried = [int(e[k]) for k in ("sent", "sent_bytes", "received", "received_bytes", "errors")]
        need(carried == [MESSAGES, MESSAGES * BYTES, MESSAGES, MESSAGES * BYTES, 0] and e["type"] == "RC" and
             e["peer"] == other["qpn"], texts)


def check_counters(penverbs):
    """Both ends are one command's, whose tree shows the sum while it still runs."""
    port = "$SYSFS_PATH/class/infiniband/shm0/ports/1"
    script = f"""
        ibv_rc_pingpong -d shm0 -g 0 -n {MESSAGES} -s {BYTES} -p $1 >&2 & server=$!
        until ibv_rc_pingpong -d shm0 -g 0 -n {MESSAGES} -s {BYTES} -p $1 localhost >&2; do sleep 0.1; done
        wait $server
        for i in $(seq 100); do
            [ "$(cat {port}/counters/port_xmit_packets)" -ge $2 ] && break
            sleep 0.05
        done
        cd {port} && grep . counters/* hw_counters/*"""
    sent = 2 * MESSAGES * (BYTES // 1024)
    done = subprocess.run(penverbs + ["--stats", "sh", "-c", script, "sh", "18517", str(sent)], capture_output=True, text=True,
                          timeout=LIMIT)
    need(done.returncode == 0, done)
    seen = dict(line.split(":") for line in done.stdout.split())
    data = str(2 * MESSAGES * BYTES // 4)
    expected = {"counters/port_xmit_data": data, "counters/port_rcv_data": data, "counters/port_xmit_packets": str(sent),
                "counters/port_rcv_packets": str(sent), "hw_counters/sent_pkts": str(sent), "hw_counters/rcvd_pkts": str(sent),
                "hw_counters/rdma_sends": str(2 * MESSAGES), "hw_counters/rdma_recvs": str(2 * MESSAGES),
                "hw_counters/send_err": "0"}
    need(all(seen.get(k) == v for k, v in expected.items()), seen, expected)
    bare = subprocess.run(penverbs + ["sh", "-c", f"ls {port}"], capture_output=True, text=True, timeout=LIMIT)
    need("counters" not in bare.stdout, "counters that nobody counts are shown", bare)


def check_trace(penverbs, pair):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="penstock-trace-"))
    try:
        def traced(words, *options):
            file = folder / f"{len(list(folder.iterdir()))}.pcap"
            codes, texts = pair(penverbs + ["--trace", str(file), *options], words)
            need(codes == [0, 0], words, codes, texts)
            reader = shutil.which("tshark")
            found = packets(file)
            if reader:
                told = subprocess.run([reader, "-r", str(file), "-T", "fields", "-e", "infiniband.bth.psn", "-e", "_ws.malformed"],
                                      capture_output=True, text=True, timeout=LIMIT)
                lines = told.stdout.splitlines()
                need(len(lines) == len(found) and all(line.split("\t")[0] and "alformed" not in line for line in lines), told)
            return found

        trace = traced(f"ibv_rc_pingpong -d shm0 -g 0 -n {MESSAGES} -s {BYTES}")
        n = names(trace)
        # Of the two commands the last to begin has made the file; the other may have begun it.
        need(n["SEND first"] * 2 == n["SEND middle"] and n["SEND first"] == n["SEND last"] == n["ACK"] and
             set(n) == {"SEND first", "SEND middle", "SEND last", "ACK"} and n["ACK"] == 2 * MESSAGES, n)
        for qpn in {p["qpn"] for p in trace if p["name"] != "ACK"}:
            psns = [p["psn"] for p in trace if p["qpn"] == qpn and p["name"] != "ACK"]
            need(all((b - a) % (1 << 24) == 1 for a, b in zip(psns, psns[1:])), "the PSNs of", qpn, psns[:20])
        need(all(p["payload"] == 1024 for p in trace if p["name"] != "ACK") and
             all(p["own"][0] == 0x1F for p in trace if p["name"] == "ACK"), trace[:8])
        need(all(p["gids"][0][:2] == b"\xfe\x80" for p in trace), "GIDs", trace[0])

        trace = traced("ib_read_lat -d shm0 -F -n 20 -s 3000 -m 1024")
        n = names(trace)
        need(n.get("READ", 0) >= 20 and n["READ"] == n["answer first"] == n["answer last"], n)
        read = next(p for p in trace if p["name"] == "READ")
        need(struct.unpack(">QII", read["own"])[2] == 3000, read)
        n = names(traced("ib_atomic_lat -d shm0 -F -n 20"))
        need(n.get("FETCH_ADD", 0) >= 20 and n["FETCH_ADD"] == n["atomic ACK"], n)
        trace = traced("ib_write_lat -d shm0 -F -n 20 -s 8")
        need(names(trace)["WRITE only"] >= 40 and all(p["payload"] == 8 for p in trace if p["name"] == "WRITE only"), trace[:3])
        trace = traced("ibv_ud_pingpong -d shm0 -n 100 -s 512", "--personality", "link=ib")
        need(names(trace) == {"UD": 200} and all(not p["gids"] and p["lids"][0] == p["lids"][1] != 0 for p in trace), trace[:2])
    finally:
        shutil.rmtree(folder)


def check_devices(penverbs):
    def said(*words):
        return subprocess.run(penverbs + list(words), capture_output=True, text=True, timeout=LIMIT)
    two = ["--devices", "numa=0:rate=25,numa=1:rate=400,rate=200,numa=3"]
    where = "$SYSFS_PATH/class/infiniband/shm"
    shown = said(*two, "sh", "-c", f"for i in 0 1 2 3; do cat {where}$i/device/numa_node {where}$i/ports/1/rate; done").stdout
    need(shown.splitlines() == ["0", "25 Gb/sec (1X EDR)", "1", "400 Gb/sec (4X NDR)", "-1", "200 Gb/sec (4X HDR)", "3",
                                "100 Gb/sec (4X EDR)"], shown)
    described = said(*two, "ibv_devinfo", "-v").stdout
    link = r"hca_id:\s*(shm\d).*?active_width:\s*\S+ \((\d+)\).*?active_speed:[^\n]*\((\d+)\)"
    links = sorted(re.findall(link, described, re.S))
    need(links == [("shm0", "1", "32"), ("shm1", "2", "128"), ("shm2", "2", "64"), ("shm3", "2", "32")], links, described)
    for bad in ["0", "17", "numa=0,", "rate=30", "numa=x", "numa=0;rate=200", "speed=1"]:
        refused = said("--devices", bad, "true")
        need(refused.returncode == 2 and "numa=NODE" in refused.stderr, bad, refused)
    if shutil.which("ibstat") and "device by  namespace" in said("--check").stdout:
        told = said(*two, "ibstat").stdout
        need(told.count("State: Active") == 4 and sorted(re.findall(r"Rate: (\d+)", told)) == ["100", "200", "25", "400"], told)
    # The kernel answers `rdma` itself; it knows nothing of the device.
    if shutil.which("rdma"):
        need("shm0" not in said("rdma", "link").stdout, "rdma link lists the device: the page of the provider is out of date")


def check(penverbs, pair):
    check_devices(penverbs)
    check_stats(penverbs, pair)
    check_counters(penverbs)
    check_trace(penverbs, pair)
