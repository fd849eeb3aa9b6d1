# sh start.sh ROOT: what systemd does with tare's drop-in for mariadb.service below ROOT before it starts the server. First the unit that
# the drop-in wants, whose commands end at the first that fails; then the environment, which is printed.
root=$1
drop_in=$root/etc/systemd/system/mariadb.service.d/zz-tare.conf
trial=$root/etc/systemd/system/tare-preload@.service
[ -f "$drop_in" ] || exit 0
instance=$(sed -n 's/^Wants=tare-preload@\(.*\)\.service$/\1/p' "$drop_in")
if [ -f "$trial" ]; then
    sed -n "s/%i/$instance/g; s/^ExecStart\(Pre\)\{0,1\}=//p" "$trial" | while read -r program arguments; do
        case $program in
            /bin/rm) rm -f "$root${arguments#-f }" ;;
            *) "$root$program" $arguments --root "$root" >>"$root/trial.log" 2>&1 ;;
        esac || break
    done
fi
{
    sed -n 's/^Environment=//p' "$drop_in"
    variables=$root$(sed -n 's/^EnvironmentFile=-//p' "$drop_in")
    [ ! -f "$variables" ] || sed '/^#/d' "$variables"
} | sed "s|\([=:]\)/|\1$root/|g"
